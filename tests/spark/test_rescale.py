"""`sequencer rescale` between batches: held messages, given-up labels, groups and handles go on."""

import json
import re
import uuid
from collections import defaultdict

import pytest

from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import (
    WarmService,
    channel_topics,
    inspect,
    run_once,
    status,
    verify,
    write_config,
)
from tests.spark.histories import written
from tests.streaming.verify.group_worlds import random_groups
from tests.streaming.verify.multicast_worlds import random_multicasts
from tests.warm import warm

pytestmark = pytest.mark.timeout(900)
KEYS = [b"k%02d" % n for n in range(12)]
PARTS = 3


def channel_parts():
    """Each part ends with a gap that the next one fills, but one that is given up before."""
    parts = []
    for part in range(PARTS):
        first = 10 * part
        labels = [*range(first, first + 8), first + 9, *([first - 2] if part else [])]
        parts.append(
            [Record(key, b"v%d" % n, [("label", b"%d" % n)]) for key in KEYS for n in labels]
        )
    return parts


def parts_of(world, topic):
    records = written(world, topic)
    size = -(-len(records) // PARTS)
    return [records[at : at + size] for at in range(0, PARTS * size, size)]


EXCHANGING = {
    "network": {"sequencing": "network"},
    "clock": {"order": "clock"},
    "counter": {"order": "counter"},
}
"""Pipelines whose shards send each other messages."""


class Workload:
    """``exchanging``: also with network, clock and counter."""

    def __init__(self, broker, folder, *, exchanging=False):
        self.bootstrap, self.folder = broker.bootstrap, folder
        prefix = f"rescale-{uuid.uuid4().hex[:8]}."
        worlds = {
            "groups": random_groups(3, steps=150, commands=0.06, output="out"),
            "multicasts": random_multicasts(5, steps=120, order="batch"),
        }
        if exchanging:
            worlds["network"] = random_groups(4, steps=150, commands=0.06, output="out")
            for order in ("clock", "counter"):
                worlds[order] = random_multicasts(6, steps=120, order=order)
        self.topics = {name: channel_topics(f"{prefix}{name}.") for name in ("channels", *worlds)}
        self.pipelines = {name: dict(topics) for name, topics in self.topics.items()}
        for name, world in worlds.items():
            pipeline = self.pipelines[name]
            pipeline["discipline"] = "multicast"
            if name in ("groups", "network"):
                members = {group: sorted(some) for group, some in world.configured.items()}
                pipeline |= {"discipline": "group", "groups": members}
            if name in EXCHANGING:
                pipeline |= {**EXCHANGING[name], "transit": f"{prefix}{name}.transit"}
        wide = [each[role] for each in self.topics.values() for role in ("input", "commands")]
        create_topics(broker.bootstrap, dict.fromkeys(wide, 2))
        self.parts = {"channels": {"input": channel_parts()}}
        for name, world in worlds.items():
            self.parts[name] = {
                "input": parts_of(world, "in"),
                "commands": parts_of(world, "commands"),
            }

    def config(self, checkpoint, shards, partitions):
        return write_config(
            self.folder,
            self.bootstrap,
            self.pipelines,
            checkpoint=str(self.folder / checkpoint),
            shards=shards,
            state_partitions=partitions,
        )

    def send(self, part):
        for name, roles in self.parts.items():
            for role, parts in roles.items():
                produce(self.bootstrap, self.topics[name][role], parts[part])

    def give_up(self, key, label):
        command = json.dumps({"op": "skip", "channel": key, "to": label}).encode()
        produce(self.bootstrap, self.topics["channels"]["commands"], [Record(None, command)])


def rescale(config, shards, partitions, to):
    asked = ("--shards", str(shards), "--state-partitions", str(partitions), "--to", str(to))
    command = warm().call("rescale", str(config), *asked)
    assert command.poll(300) == 0, command.said()
    return command.said()


def known(config):
    return {name: inspect(config, "--pipeline", name) for name in status(config)}


def counted(config):
    """Figures that a move changes nothing of: not which batch was the last one, and when."""
    names = ("in", "delivered", "rejected", "dropped", "held", "gaps", "blocked", "undelivered")
    return {
        name: {key: each[key] for key in names if key in each}
        for name, each in status(config).items()
    }


@pytest.mark.parametrize("back", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_from_two_state_partitions_to_eight(broker, tmp_path, back):
    """``back``: with all orders, and, two thirds through the workload, to two again."""
    work = Workload(broker, tmp_path, exchanging=back)
    config = work.config("two", 6, 2)
    work.send(0)
    run_once(config)
    work.give_up("k00", 9)
    run_once(config)
    before, counts, counted_before = known(config), status(config), counted(config)
    assert counts["channels"]["held"] == len(KEYS) - 1
    said = rescale(config, 16, 8, tmp_path / "eight")
    for name in work.pipelines:
        assert re.search(rf"\b{name}: 6 → 16 shards, 2 → 8 state partitions", said), said

    with WarmService(config, "--once") as refused:
        assert refused.wait(120) == 2, refused.said()
        assert "was moved from" in refused.said()

    config = work.config("eight", 16, 8)
    assert known(config) == before
    assert counted(config) == counted_before
    assert "moved before" in rescale(work.config("two", 6, 2), 16, 8, tmp_path / "eight")
    config = work.config("eight", 16, 8)
    work.send(1)
    if back:
        run_once(config)
        rescale(config, 6, 2, tmp_path / "back")
        config = work.config("back", 6, 2)
    work.send(2)
    run_once(config)
    require_whole(work, config)


def require_whole(work, config):
    """Judged by the topics, and everything that was sent is accounted for."""
    code, said = verify(config)
    assert code == 0, said
    figures = status(config)
    for name, roles in work.parts.items():
        assert figures[name]["in"] == sum(map(len, roles["input"]))
        assert figures[name]["held"] == 0 or name == "channels", name
    assert figures["channels"]["rejected"] == {"late": 1}
    for name, topics in work.topics.items():
        require_no_hole(read_all(work.bootstrap, topics["output"]), name)


def require_no_hole(records, name):
    """Each key has one incarnation, and each number once: nothing began anew, nothing came twice."""
    numbers = defaultdict(list)
    for record in records:
        numbers[record.key, record.header("incarnation")].append(int(record.header("sequence")))
    assert records, name
    assert len({key for key, _ in numbers}) == len(numbers), name
    for key, sequence in numbers.items():
        assert sequence == list(range(len(sequence))), (name, key)
