"""A shard is called in the first batch in which its timer is due: neither before nor later."""

import pandas as pd
import pytest

from sequencer import LinearLabels
from sequencer.channels import Rules, Skip
from streaming.disciplines.channels.core import ChannelOperator
from tests.simulated.group_state import GroupState
from tests.streaming.disciplines.channels.plans import pack, plan

BEGAN_MS, WAIT_MS = 10_000, 1_000
RECORD = {
    "topic": 0,
    "partition": 0,
    "offset": 0,
    "timestamp": 0,
    "key": b"k",
    "value": b"v",
    "headers": [{"key": "label", "value": b"3"}],
}


@pytest.mark.parametrize("after_ms", [-1, 0, 1])
def test_a_repeated_batch_does_what_its_first_run_did(after_ms):
    """In a repeated batch every shard is called; in its first run those whose timer Spark fires.

    Spark fires a timer in a batch that is later than it (`GroupStateImpl`).
    """
    made = plan(Rules(LinearLabels(), gap=Skip(WAIT_MS)))
    operator = ChannelOperator(made)
    key = operator.keys[0]
    state = GroupState(None, BEGAN_MS, timed_out=False)
    list(operator((key,), iter([{"rows": pack([RECORD], made)}]), state))
    now_ms = BEGAN_MS + WAIT_MS + after_ms
    fires = state.timeout_ms < now_ms
    again = GroupState(state.row, now_ms, timed_out=False)
    rows = pd.concat(list(operator((key,), iter([{"rows": [b""]}]), again)))
    assert any(rows["topic"]) == fires == (after_ms >= 0)
