"""Multicasts in a service that is not as usual.

A safeguard of each protocol switched off: `sequencer verify` sees it (with all safeguards on, the
same driver finds nothing in `tests/faults/test_kill_multicast.py`). A backlog: it stays in Kafka.
"""

import uuid

import pytest

from tests.faults.multicasts import Traffic, prepare
from tests.service_helpers import run_once, status, verify

ORDERS = ("clock", "counter")
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def judged(broker, tmp_path_factory):
    """What verify says of each order."""
    folder = tmp_path_factory.mktemp("ablated")
    traffic = Traffic(broker, f"ablated-{uuid.uuid4().hex[:8]}.", ORDERS, seed=2)
    config = prepare(traffic, folder, batch_records_max=25)
    traffic.multicast(300)
    run_once(config, within="tests.spark.ablated:unsafe")
    return {order: verify(config, "--pipeline", order) for order in ORDERS}


@pytest.mark.parametrize("order", ORDERS)
def test_the_judge_sees_what_a_safeguard_is_for(judged, order):
    code, said = judged[order]
    assert code == 1, said
    assert "stamp-order:" in said
    assert "pairwise-order:" in said


MULTICASTS = 200
"""To 25 peers each: some 5,000 deliveries wait, three times what `ablated.narrow` lets wait."""


@pytest.mark.slow
def test_a_backlog_is_read_as_fast_as_it_is_worked_through(broker, tmp_path):
    traffic = Traffic(broker, f"backlog-{uuid.uuid4().hex[:8]}.", ORDERS, seed=3)
    config = prepare(traffic, tmp_path)
    traffic.multicast(MULTICASTS)
    said = run_once(config, within="tests.spark.ablated:narrow")
    for order in ORDERS:
        assert f"{order}: " in said
        (told, *_) = [
            line for line in said.splitlines() if f" {order}: " in line and "wait" in line
        ]
        assert "reading few inputs until" in told
        figures = status(config)[order]
        assert figures["in"] == MULTICASTS
        assert figures["held"] == figures["transit"] == 0
    code, said = verify(config)
    assert code == 0, said
