"""A checkpoint that an older version wrote is read: what is kept here is never made anew.

`checkpoints/format-1.tar.gz` was written by version 0.1.0: channels (state format 2), groups and
multicasts in the order of the batch (format 1). A version that cannot read it says what to do
(`StateFormatError`): this one reads channels, and refuses the others.
"""

import tarfile
from collections import defaultdict
from pathlib import Path

import pytest

from streaming.service.checkpoint import Checkpoint
from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import (
    RUN_SECONDS_MAX,
    channel_topics,
    inspect,
    run_once,
    status,
    write_config,
)
from tests.warm import warm

pytestmark = pytest.mark.timeout(600)
KEPT = Path(__file__).parent / "checkpoints" / "format-1.tar.gz"
PREFIX = b"rescale-2d91e3b1."
"""Begins the names of the topics that it read."""

PIPELINES = {
    "channels": {},
    "groups": {"discipline": "group", "groups": {}},
    "multicasts": {"discipline": "multicast"},
}


@pytest.fixture(scope="module")
def config(broker, tmp_path_factory):
    folder = tmp_path_factory.mktemp("old")
    unpack(folder / "checkpoints")
    return write_config(folder, broker.bootstrap, PIPELINES, shards=6, state_partitions=2)


def unpack(folder):
    with tarfile.open(KEPT) as archive:
        archive.extractall(folder, filter="data")


def test_channels(config):
    channels = inspect(config, "--pipeline", "channels")["channels"]
    assert [each["channel"] for each in channels] == [f"k{n:02}" for n in range(12)]
    for each in channels:
        assert (each["next"], each["sequence"], each["held"]) == (8, 8, 1)
        assert each["missing"] == [[8, 9]]


@pytest.mark.parametrize("name", ["groups", "multicasts"])
def test_groups_and_multicasts_are_refused(config, name):
    command = warm().call("inspect", str(config), "--pipeline", name)
    assert command.poll(RUN_SECONDS_MAX) == 1
    assert "state has format 1" in command.said()
    assert "start with a new checkpoint folder" in command.said()


def test_a_service_goes_on_from_it(broker, topic_prefix, tmp_path):
    folder = tmp_path / "checkpoints"
    unpack(folder)
    # A batch that was planned and not begun: this Kafka knows nothing of it.
    (folder / "channels" / "offsets" / "1").unlink()
    for path in folder.rglob("*"):
        if path.is_file() and "state" not in path.parts:
            path.write_bytes(path.read_bytes().replace(PREFIX, topic_prefix.encode()))
    for topic, ends in Checkpoint(str(folder), "channels").read_up_to().items():
        create_topics(broker.bootstrap, {topic: len(ends)})
        read = [Record(b"", b"", [], int(part)) for part, end in ends.items() for _ in range(end)]
        produce(broker.bootstrap, topic, read)
    topics = channel_topics(f"{topic_prefix}channels.")
    config = write_config(
        tmp_path, broker.bootstrap, {"channels": topics}, shards=6, state_partitions=2
    )
    channels = inspect(config, "--pipeline", "channels")["channels"]
    numbers = {each["channel"]: each["sequence"] for each in channels}
    missing = [Record(b"k%02d" % n, b"v8", [("label", b"8")]) for n in range(12)]
    produce(broker.bootstrap, topics["input"], missing)
    run_once(config)

    assert status(config)["channels"]["held"] == 0
    got = defaultdict(list)
    for record in read_all(broker.bootstrap, topics["output"]):
        got[record.key.decode()].append(int(record.header("sequence")))
    assert got.keys() == numbers.keys()
    for key, sequence in got.items():
        assert sequence == [numbers[key], numbers[key] + 1], key
