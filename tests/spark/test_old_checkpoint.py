"""A checkpoint that an older version wrote is read: what is kept here is never made anew.

`checkpoints/format-1.tar.gz` was written by version 0.1.0: channels (state format 2), groups and
multicasts in the order of the batch (format 1). A version that cannot read it says what to do
(`StateFormatError`), and this test then says which.
"""

import tarfile
from pathlib import Path

import pytest

from tests.service_helpers import inspect, status, write_config

pytestmark = pytest.mark.timeout(600)
KEPT = Path(__file__).parent / "checkpoints" / "format-1.tar.gz"
PIPELINES = {
    "channels": {},
    "groups": {"discipline": "group", "groups": {}},
    "multicasts": {"discipline": "multicast"},
}


@pytest.fixture(scope="module")
def config(broker, tmp_path_factory):
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(KEPT) as archive:
        archive.extractall(folder / "checkpoints", filter="data")
    return write_config(folder, broker.bootstrap, PIPELINES, shards=6, state_partitions=2)


def test_channels(config):
    channels = inspect(config, "--pipeline", "channels")["channels"]
    assert [each["channel"] for each in channels] == [f"k{n:02}" for n in range(12)]
    for each in channels:
        assert (each["next"], each["sequence"], each["held"]) == (8, 8, 1)
        assert each["missing"] == [[8, 9]]


@pytest.mark.parametrize(
    ("name", "key", "delivered"),
    [("groups", "subscribers", 155), ("multicasts", "peers", 57)],
)
def test_groups_and_multicasts(config, name, key, delivered):
    told = inspect(config, "--pipeline", name)[key]
    figures = status(config)[name]
    assert figures["delivered"] == delivered
    assert sum(each["sequence"] for each in told) == delivered + figures.get("notices", 0)
