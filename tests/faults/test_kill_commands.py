"""kill -9 around the answer to a command that concerns all shards: it comes once, and is right."""

import json
import signal

import pytest

from streaming.crashes import ANSWER_POINTS
from tests.faults.channels import KEYS, prepare
from tests.kafka_helpers import Record, produce, read_all
from tests.service_helpers import Service, run_once, status, verify

SIGNED = {"by": "ann", "why": "the sender is gone"}


@pytest.mark.timeout(1800)
def test_a_command_to_all_is_answered_once_through_crashes(broker, topic_prefix, tmp_path):
    config = prepare(broker, topic_prefix, tmp_path)
    produce(
        broker.bootstrap,
        f"{topic_prefix}in",
        [Record(key, b"v", [("label", b"%d" % n)]) for key in KEYS for n in (0, 2, 5, 9)],
    )
    run_once(config)
    asked = [f"{topic_prefix}{point}" for point in ANSWER_POINTS]
    for point, name in zip(ANSWER_POINTS, asked, strict=True):
        said = json.dumps({"op": "skip", "blocked": "0 s", "id": name, **SIGNED}).encode()
        produce(broker.bootstrap, f"{topic_prefix}commands", [Record(None, said, [])])
        marker = tmp_path / f"died-{point}"
        with Service(config, "--once", environment={"SEQUENCER_FAULT": f"{point}:{marker}"}) as run:
            assert run.wait() == -signal.SIGKILL, f"{point}: {run.said()}"
        assert marker.exists(), point
    run_once(config)
    events = [json.loads(r.value) for r in read_all(broker.bootstrap, f"{topic_prefix}events")]
    answers = [e for e in events if e["event"].startswith("command")]
    assert all({name: e.get(name) for name in SIGNED} == SIGNED for e in answers)
    # Each lies in the partition of its command's id: in no order.
    assert sorted((e["given_up"], e["channels"], e["command"]) for e in answers) == [
        (len(KEYS), len(KEYS), asked[0]),
        (2 * len(KEYS), len(KEYS), asked[1]),
    ]
    gaps = [e for e in events if e["event"] == "gap"]
    assert len(gaps) == len({e["id"] for e in gaps}) == 2 * len(KEYS)
    counted = status(config)["p"]
    assert (counted["delivered"], counted["held"]) == (3 * len(KEYS), len(KEYS))
    assert verify(config)[0] == 0
