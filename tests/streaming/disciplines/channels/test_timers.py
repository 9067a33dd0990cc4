"""The time of shards: a timer is due in one batch, neither before nor later; time goes forward."""

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest
from pyspark import TaskContext

from sequencer import LinearLabels
from sequencer.channels import Fail, Rules, Skip, delays
from sequencer.channels.delays import Quantile
from streaming.arrow.totals import Totals
from streaming.disciplines.channels.codec import decode_shard
from streaming.disciplines.channels.core import ChannelOperator
from streaming.disciplines.channels.records import record_schema
from streaming.disciplines.plan import BatchContext
from streaming.disciplines.state_row import StateRow
from streaming.errors import GapTimeout
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


def test_a_gap_that_fails_names_the_ways_on():
    made = plan(Rules(LinearLabels(), gap=Fail(WAIT_MS)))
    operator = ChannelOperator(made)
    state = GroupState(None, BEGAN_MS, timed_out=False)
    key = operator.keys[0]
    list(operator((key,), iter([{"rows": pack([RECORD], made)}]), state))
    later = GroupState(state.row, BEGAN_MS + WAIT_MS + 1, timed_out=True)
    with pytest.raises(GapTimeout, match="Channel k of pipeline 'p' has waited") as failed:
        list(operator((key,), iter([]), later))
    for way in ("Send the missing label", "`sequencer skip CONFIG --channel NAME`", '"wait"'):
        assert way in failed.value.remedy


def test_a_stop_of_the_service_and_what_is_unread_do_not_count(monkeypatch):
    """What was sent meanwhile may be more than a batch reads: the label may be behind it."""
    made = plan(Rules(LinearLabels(), gap=Skip(WAIT_MS)))
    operator = ChannelOperator(made)
    key = operator.keys[0]
    state = GroupState(None, BEGAN_MS, timed_out=False)
    list(operator((key,), iter([{"rows": pack([RECORD], made)}]), state))
    context = BatchContext("q", 3, decisions={"pauses": [[BEGAN_MS, 60_000]]})
    task = SimpleNamespace(getLocalProperty=lambda _name: context.to_json())
    monkeypatch.setattr(TaskContext, "_taskContext", task)
    now_ms = BEGAN_MS + 60_000
    for at_ms, fires in ((now_ms, False), (now_ms + WAIT_MS, True)):
        state = GroupState(state.row, at_ms, timed_out=True)
        assert any(pd.concat(list(operator((key,), iter([]), state)))["topic"]) == fires
        assert fires or state.timeout_ms == now_ms + WAIT_MS - 1
    state, at_ms = GroupState(None, BEGAN_MS, timed_out=False), BEGAN_MS + WAIT_MS
    list(operator((key,), iter([{"rows": pack([RECORD], made)}]), state))
    for decisions, fires in (({"caught_up_ms": at_ms - 1}, False), ({"caught_up_ms": at_ms}, True)):
        context = BatchContext("q", 3, decisions=decisions)
        state = GroupState(state.row, at_ms + 7, timed_out=True)
        assert any(pd.concat(list(operator((key,), iter([]), state)))["topic"]) == fires
        assert fires or state.timeout_ms == at_ms + 8, "it is asked again in the next batch"


@pytest.mark.parametrize("rows", [[], [b"quiet"]])
def test_a_repeated_batch_does_what_its_first_run_did_though_the_clock_was_set_back(
    rows, monkeypatch
):
    """The shard's time has passed what is due, as its gap time became shorter; the batch's has not.

    In the first run Spark fires its timer, or it gets a row that has nothing for it.
    """
    monkeypatch.setattr(delays, "SAMPLES_MIN", 5)
    made = plan(Rules(LinearLabels(), gap=Skip(60_000, Quantile(0.5, 500, 60_000))))
    operator = ChannelOperator(made)
    monkeypatch.setattr(operator, "packs", lambda _key, row: [] if row == b"quiet" else [row])
    key = operator.keys[0]
    in_order = [{**RECORD, "offset": n, "key": b"o%d" % n} for n in range(1, 4)]
    in_order = [{**each, "headers": [{"key": "label", "value": b"0"}]} for each in in_order]
    state = GroupState(None, BEGAN_MS + 1_000, timed_out=False)
    for now_ms, records in (
        (BEGAN_MS + 1_000, [RECORD]),
        (BEGAN_MS + 2_000, in_order[:1]),
        (BEGAN_MS + 500, [*in_order[1:], {**in_order[2], "offset": 4, "key": b"o4"}]),
    ):
        state = GroupState(state.row, now_ms, timed_out=False)
        list(operator((key,), iter([{"rows": pack(records, made)}]), state))
    assert Totals.from_json(StateRow.from_text(*state.row).totals).due_ms == BEGAN_MS + 1_500
    now_ms = BEGAN_MS + 600
    wrote = []
    for given in (rows, [b""]):
        called = bool(given) or state.timeout_ms < now_ms
        again = GroupState(state.row, now_ms, timed_out=not given)
        frames = list(operator((key,), iter([{"rows": given}]), again)) if called else []
        wrote.append([row for frame in frames for row in frame["rows"] if row])
    assert wrote[0] == wrote[1] != []


def test_incarnations_after_resets_are_not_given_again_in_the_next_batch():
    """Resets of a channel begun in this batch move the shard's time; the state must keep that."""
    made = replace(plan(Rules(LinearLabels())), input_commands=["reset"])
    operator = ChannelOperator(made)
    key = operator.keys[0]
    first = {**RECORD, "headers": [{"key": "label", "value": b"0"}]}
    reset = {**RECORD, "value": b"{}", "headers": [{"key": "op", "value": b"reset"}]}
    records = [{**each, "offset": n} for n, each in enumerate([first, reset] * 4)]
    state = GroupState(None, BEGAN_MS, timed_out=False)
    list(operator((key,), iter([{"rows": pack(records, made)}]), state))
    state = GroupState(state.row, BEGAN_MS + 1, timed_out=False)
    list(operator((key,), iter([{"rows": pack([{**first, "offset": 8}], made)}]), state))
    shard = decode_shard(StateRow.from_text(*state.row), record_schema(made)).state
    assert shard.incarnation.tolist() == [BEGAN_MS + 4], "the first four began within four ms"
