"""Multicast through kill -9: 1,000 peers, all orders, nodes that come and go, side channels.

Handles to nodes are passed on and given back meanwhile.

Who answers has not read the delivery itself: somebody else did, and told. The inputs say so in a
header, by which `sequencer verify --causes` judges what peers get.
"""

import uuid

import pytest

from streaming.demo.stage import CAUSE
from tests.faults.kills import Reactor, through_kills
from tests.faults.multicasts import NODES, Traffic, judge, prepare
from tests.service_helpers import run_once, status, verify


def kill_at_random(broker, folder, orders, *, kills, messages, seconds, seed=1):
    """`messages` for each order; the status figures at the end."""
    prefix = f"kill-multicast-{uuid.uuid4().hex[:8]}."
    traffic = Traffic(broker, prefix, orders, seed)
    config = prepare(traffic, folder, batch_records_max=max(500, messages // 40))
    for node in NODES:
        traffic.command("create-node", node)
    run_once(config)  # who needs a node waits for the answer

    def turn(number):
        traffic.multicast(messages // (kills + 1))
        traffic.release(3)
        if number % 2:
            traffic.destroy()

    with Reactor(broker.bootstrap, traffic.outputs, traffic.answer):
        through_kills(config, turn, kills=kills, seconds=seconds, seed=seed)
    run_once(config, limit_s=420 + messages / 20)
    code, said = verify(config, "--causes", CAUSE)
    assert code == 0, said
    figures = status(config)
    assert sum(traffic.answers.values()) > kills, "nobody answered"
    judge(traffic, figures)
    return figures


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_twenty_kills_during_100_000_multicasts(broker, tmp_path):
    figures = kill_at_random(broker, tmp_path, ["batch"], kills=20, messages=100_000, seconds=8)
    assert figures["batch"]["in"] > 99_000


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_twenty_kills_by_clocks_and_by_the_counter(broker, tmp_path):
    orders = ["clock", "counter"]
    figures = kill_at_random(broker, tmp_path, orders, kills=20, messages=50_000, seconds=8)
    assert all(figures[order]["in"] > 49_000 for order in orders)
