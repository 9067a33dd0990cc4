"""Power cuts between any two of the numbered steps: what had not been synced is gone."""

import random
import signal

import pytest

from streaming.crashes import POINTS
from streaming.disciplines.channels.shard_files import FILE_BYTES_MIN
from tests.faults.channels import KEYS, judge, prepare, some_messages
from tests.faults.power_cut import cut_power, recording
from tests.kafka_helpers import produce
from tests.service_helpers import Service, run_once, status

pytestmark = pytest.mark.timeout(1800)
EVERYWHERE = (*POINTS, *POINTS)


@pytest.mark.parametrize(
    "points",
    [("4-5",), pytest.param(EVERYWHERE, marks=pytest.mark.slow)],
    ids=["one", "everywhere"],
)
def test_a_power_cut_loses_nothing_and_repeats_nothing(points, broker, topic_prefix, tmp_path):
    size = FILE_BYTES_MIN // 8  # what is held becomes files
    config = prepare(broker, topic_prefix, tmp_path, shards=4, state_partitions=2)
    record, rng = tmp_path / "record", random.Random(len(points))
    sent = count = lost = 0
    for turn, point in enumerate(points):
        batch = some_messages(count, 10, rng, size=size)
        produce(broker.bootstrap, f"{topic_prefix}in", batch)
        sent, count = sent + len(batch), count + 10
        fault = {"SEQUENCER_FAULT": f"{point}:{tmp_path}/died-{turn}"}
        with Service(config, "--once", environment={**fault, **recording(record)}) as service:
            assert service.wait() == -signal.SIGKILL, f"{point}: {service.said()}"
        lost += cut_power(tmp_path / "checkpoints" / "p", record, rng)
    assert lost, "something was not on the disk yet"
    run_once(config)
    judge(broker.bootstrap, topic_prefix, count, sent, status(config)["p"], KEYS, size)
