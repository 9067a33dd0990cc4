"""A safeguard of each protocol switched off in the running service: `sequencer verify` sees it.

With all safeguards on, the same driver finds nothing in `tests/faults/test_kill_multicast.py`.
"""

import uuid

import pytest

from tests.faults.test_kill_multicast import ORDERS, Traffic, prepare
from tests.service_helpers import run_once, verify

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def judged(broker, tmp_path_factory):
    """What verify says of each order."""
    folder = tmp_path_factory.mktemp("ablated")
    traffic = Traffic(broker, f"ablated-{uuid.uuid4().hex[:8]}.", seed=2)
    config = prepare(traffic, folder, batch_records_max=200)
    traffic.multicast(600)
    run_once(config, command=("-c", "from tests.spark.ablated import main; main()"))
    return {order: verify(config, "--pipeline", order) for order in ORDERS}


@pytest.mark.parametrize("order", ORDERS)
def test_the_judge_sees_what_a_safeguard_is_for(judged, order):
    code, said = judged[order]
    assert code == 1, said
    assert "stamp-order:" in said
    assert "pairwise-order:" in said
