"""The group discipline through the real job: random histories, judged by `sequencer verify`."""

import json
import uuid

import pytest

from tests.kafka_helpers import create_topics, produce, read_all
from tests.service_helpers import run_once, status, verify, write_config
from tests.spark.histories import written
from tests.streaming.verify.group_worlds import random_groups

pytestmark = pytest.mark.timeout(900)
PIPELINES = {
    "plain": {},
    "network": {"sequencing": "network", "sender_order": "across-groups"},
    "own": {"output": "own.{subscriber}"},
}
SEEDS = {"plain": 1, "network": 2, "own": 3}


def worlds():
    return {
        name: random_groups(seed, steps=400, commands=0.04, output="out")
        for name, seed in SEEDS.items()
    }


def send(broker, prefix, worlds, half):
    """The first or the second half of every input and command partition."""
    for name, world in worlds.items():
        for topic in ("in", "commands"):
            records = written(world, topic)
            for partition in sorted({r.partition for r in records}):
                mine = [r for r in records if r.partition == partition]
                cut = len(mine) // 2
                produce(
                    broker.bootstrap,
                    f"{prefix}{name}.{topic}",
                    mine[:cut] if half == 0 else mine[cut:],
                )


@pytest.fixture(scope="module")
def ran(broker, tmp_path_factory):
    """All pipelines worked through two halves of the input, with a restart in between."""
    folder = tmp_path_factory.mktemp("groups")
    prefix = f"groups-{uuid.uuid4().hex[:8]}."
    made = worlds()
    pipelines = {}
    for name, more in PIPELINES.items():
        topics = {role: f"{prefix}{name}.{role}" for role in ("rejects", "events", "commands")}
        pipelines[name] = {
            "discipline": "group",
            "input": f"{prefix}{name}.in",
            "output": f"{prefix}{name}.out",
            "transit": f"{prefix}{name}.transit",
            "groups": {group: sorted(some) for group, some in made[name].configured.items()},
            **topics,
            **more,
        }
        if "output" in more:
            pipelines[name]["output"] = f"{prefix}{more['output']}"
    create_topics(
        broker.bootstrap,
        {f"{prefix}{name}.{topic}": 2 for name in made for topic in ("in", "commands")},
    )
    config = write_config(folder, broker.bootstrap, pipelines)
    send(broker, prefix, made, 0)
    run_once(config)
    send(broker, prefix, made, 1)
    run_once(config)
    return broker.bootstrap, prefix, config, made


def test_verify_finds_nothing(ran):
    _, _, config, _ = ran
    code, said = verify(config)
    assert code == 0, said


def test_the_account(ran):
    bootstrap, prefix, config, made = ran
    figures = status(config)
    for name, world in made.items():
        mine = figures[name]
        rejects = read_all(bootstrap, f"{prefix}{name}.rejects")
        assert mine["in"] == len(written(world, "in")), name
        assert sum(mine["rejected"].values()) == len(rejects), name
        assert mine["held"] == mine["blocked"] == mine["transit"] == 0, name
        assert mine["delivered"] > 0, name
        commands = written(world, "commands")
        events = [json.loads(r.value) for r in read_all(bootstrap, f"{prefix}{name}.events")]
        answers = [each for each in events if each["event"].startswith("command-")]
        assert len(answers) == len(commands), name
