"""An older checkpoint of shards that send each other messages: what lost batches sent is left alone."""

import shutil
from collections import Counter

import pytest

from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import RUN_SECONDS_MAX, WarmService, run_once, write_config

pytestmark = pytest.mark.timeout(900)
GROUPS = {"G0": ["A", "B", "C"], "G1": ["B", "C"], "G2": ["A", "C"]}


def delivered(broker, topic):
    """How often each subscriber got each message; each triple is one content."""
    found, contents = Counter(), {}
    for record in read_all(broker.bootstrap, topic):
        headers = dict(record.headers)
        name = (record.key, headers["incarnation"], headers["sequence"])
        assert name not in contents, name
        contents[name] = record.value
        found[record.key, record.value] += 1
    return found


def test_a_network_of_nodes(broker, topic_prefix, tmp_path):
    roles = ("input", "output", "rejects", "events", "commands", "transit")
    topics = {role: f"{topic_prefix}{role}" for role in roles}
    create_topics(broker.bootstrap, {topics["input"]: 2})
    pipeline = {"discipline": "group", "sequencing": "network", "groups": GROUPS, **topics}
    config = write_config(tmp_path, broker.bootstrap, {"p": pipeline}, create_topics=True, shards=4)
    checkpoint, backup = tmp_path / "checkpoints", tmp_path / "backup"

    def send(first, stop):
        records = [
            Record(b"s%d" % (n % 3), b"%d" % n, [("group", b"G%d" % (n % len(GROUPS)))], n % 2)
            for n in range(first, stop)
        ]
        produce(broker.bootstrap, topics["input"], records)

    def wanted(first, stop):
        return Counter(
            (member.encode(), b"%d" % n)
            for n in range(first, stop)
            for member in GROUPS[f"G{n % len(GROUPS)}"]
        )

    send(0, 20)
    run_once(config)
    shutil.copytree(checkpoint, backup)
    for first in (20, 25):  # in two batches, and later in one
        send(first, first + 5)
        run_once(config)
    shutil.rmtree(checkpoint)
    backup.rename(checkpoint)
    send(30, 40)
    with WarmService(config, "--once") as service:
        assert service.wait(RUN_SECONDS_MAX) == 1
        assert "is older than its output" in service.said()
    assert "is repeated" in run_once(config, "--accept-repeats")
    assert delivered(broker, topics["output"]) == wanted(0, 40) + wanted(20, 30)
