"""Batches that no single transaction can take: written in parts, each delivery once."""

import json
import uuid

import pytest

from tests.kafka_helpers import Record, create_topics, produce
from tests.service_helpers import channel_topics, run_once, status, write_config

pytestmark = pytest.mark.timeout(3600)


def group_made_by_command(broker, folder, members, publishes, **service):
    """A pipeline whose configuration knows of two subscribers; a command has added ``members``."""
    prefix = f"parts-{uuid.uuid4().hex[:8]}."
    topics = channel_topics(prefix)
    create_topics(broker.bootstrap, {topics["input"]: 1, topics["commands"]: 1})
    pipeline = {"discipline": "group", "groups": {"G0": ["a", "b"]}, **topics}
    config = write_config(folder, broker.bootstrap, {"p": pipeline}, **service)
    names = [f"s{n}" for n in range(members)]
    command = json.dumps({"op": "add", "group": "BIG", "members": names, "id": "c"}).encode()
    produce(broker.bootstrap, topics["commands"], [Record(None, command)])
    records = [Record(b"k", b"m%d" % n, [("group", b"BIG")]) for n in range(publishes)]
    produce(broker.bootstrap, topics["input"], records)
    return config, topics


@pytest.mark.slow
def test_6_000_publishes_to_a_group_of_2_000_that_a_command_added(broker, tmp_path):
    config, _ = group_made_by_command(broker, tmp_path, 2_000, 6_000)
    run_once(config, limit_s=3000, cold=True)
    found = status(config)["p"]
    assert (found["in"], found["delivered"]) == (6_000, 12_000_000)
