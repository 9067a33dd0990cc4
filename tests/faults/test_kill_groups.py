"""Groups through kill -9: many memberships in one service, commands and reactions meanwhile."""

import random
import uuid

import pytest

from streaming.demo.stage import CAUSE
from tests.faults.groups import Traffic, judge, memberships, pipelines
from tests.faults.kills import Reactor, through_kills
from tests.service_helpers import run_once, status, verify, write_config


def kill_at_random(broker, folder, *, kills, messages, seconds, seed=1):
    """`messages` for all memberships together."""
    prefix = f"kill-groups-{uuid.uuid4().hex[:8]}."
    groups = memberships()
    made = pipelines(broker, prefix, groups, network=("sparse", "nested"))
    config = write_config(folder, broker.bootstrap, made, batch_records_max=5_000)
    traffic = Traffic(broker, prefix, groups, seed)
    rng = random.Random(seed)

    def turn(number):
        for name in groups:
            traffic.publish(name, messages // len(groups) // (kills + 1))
            if number % 2 or rng.random() < 0.5:
                traffic.command(name)

    with Reactor(broker.bootstrap, traffic.outputs, traffic.answer):
        through_kills(config, turn, kills=kills, seconds=seconds, seed=seed)
    run_once(config)
    code, said = verify(config, "--causes", CAUSE)
    assert code == 0, said
    figures = status(config)
    judge(traffic, figures)
    assert sum(each["in"] for each in figures.values()) >= messages * 0.99


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_twenty_kills_during_200_000_publishes(broker, tmp_path):
    kill_at_random(broker, tmp_path, kills=20, messages=200_000, seconds=20)
