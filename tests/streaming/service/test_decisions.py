"""What batches decide by more than records, state and time: kept, and used again."""

import dataclasses
import json
from types import SimpleNamespace

import pytest
from pyspark import TaskContext

from sequencer import LinearLabels
from streaming.config import parse_config
from streaming.disciplines import DISCIPLINES
from streaming.disciplines.groups.batch.core import BatchOperator
from streaming.disciplines.plan import BatchContext
from streaming.disciplines.shards import Count
from streaming.service import decisions as decisions_module
from streaming.service.checkpoint import Checkpoint, Identity
from streaming.service.decisions import Decisions
from streaming.service.planning import make_plan
from tests.checkpoints import MemoryCheckpoint

LABELS = LinearLabels()
CHANGED = {
    "channel": {
        "gap": {
            "policy": "skip",
            "after": {"quantile": 0.999, "least": "1 s", "most": "60 s"},
            "ask_after": "2 s",
        },
        "buffer": {"held": 7, "window": 9, "full": "skip"},
        "duplicates": "drop",
        "retire_after": "1 s",
        "unlabelled": "pass",
        "notices": True,
        "input_commands": ["reset"],
        "rules": [{"channel": "a*", "retire_after": "2 s"}],
        "labels": {"kind": "linear", "start": "first-seen", "settle": "1 s"},
    },
    "group": {
        "stamps": False,
        "retire_after": "1 s",
        "notices": True,
        "input_commands": ["join"],
    },
    "multicast": {"retire_after": "1 s", "input_commands": ["release"]},
}


def planned(discipline, prefix="", **settings):
    groups = {"groups": {"G": ["a"]}} if discipline == "group" else {}
    table = {"discipline": discipline, **groups, **settings}
    service = {"header_prefix": prefix}
    config = parse_config({"service": service, "pipelines": {"p": table}}, {}, "c.toml")
    own = DISCIPLINES[discipline].identity(config.pipelines["p"])
    return make_plan(
        config, "p", Identity(discipline, 16, 2, ["p.in"], own), {"p.out": 2 + len(prefix)}
    )


def shown(plan):
    """All that is in a plan; labels have no equality of their own."""
    fields = {each.name: getattr(plan, each.name) for each in dataclasses.fields(plan)}
    if "rules" in fields:
        rules = dataclasses.replace(fields["rules"], labels=LABELS)
        others = ((glob, dataclasses.replace(each, labels=LABELS)) for glob, each in rules.others)
        fields["rules"] = dataclasses.replace(rules, others=tuple(others))
    return fields


@pytest.mark.parametrize(
    ("discipline", "more"),
    [
        ("channel", {"labels": {"kind": "linear", "start": "first-seen"}}),
        ("group", {}),
        ("group", {"sequencing": "network"}),
        ("multicast", {}),
        ("multicast", {"order": "clock"}),
    ],
)
def test_every_setting_that_may_change_is_a_decision(discipline, more):
    before = planned(discipline, **more)
    after = planned(discipline, "x-", origin=True, **{**more, **CHANGED[discipline]})
    if discipline == "group":  # another pipeline writes more topics
        after = dataclasses.replace(after, taken=["p.out.a"])
    changed = {n for n, value in after.decisions().items() if value != before.decisions()[n]}
    assert changed == after.decisions().keys()
    assert shown(after.under(before.decisions())) == shown(before)
    assert shown(before.under(after.decisions())) == shown(after)
    assert before.under({}) == before, "what an older version did not decide is as the file says"


def test_a_batch_keeps_what_it_began_with_and_the_next_one_has_what_is_wanted():
    checkpoint = MemoryCheckpoint()
    checkpoint.offsets = {0: "a"}
    first = Decisions(checkpoint)
    assert first.standing(0, {"gap": "wait"}) == {"gap": "wait"}, "nothing was decided before"
    checkpoint.done, checkpoint.offsets[1] = 0, "b"
    assert Decisions(checkpoint).standing(1, {"gap": "skip"}) == {"gap": "wait"}
    checkpoint.done = 1
    again = Decisions(checkpoint)
    assert again.standing(2, {"gap": "skip"}) == {"gap": "skip"}
    checkpoint.offsets[2] = "c"
    restarted = Decisions(checkpoint)
    assert restarted.standing(2, {"gap": "fail"}) == {"gap": "skip"}
    assert restarted.standing(3, {"gap": "fail"}) == {"gap": "fail"}


def test_findings_are_those_of_one_batch():
    checkpoint = MemoryCheckpoint()
    Decisions(checkpoint).add(4, {"refused": [1]})
    decisions = Decisions(checkpoint)
    decisions.add(4, {"other": 2})
    decisions.add(4, {"refused": [1, 3]})
    decisions.standing(4, {"gap": "wait"})
    assert Decisions(checkpoint).findings(4) == {"refused": [1, 3], "other": 2}
    assert Decisions(checkpoint).findings(5) == {}
    decisions.add(5, {"refused": [9]})
    assert Decisions(checkpoint).findings(5) == {"refused": [9]}


def test_findings_are_not_those_of_another_batch_of_that_number():
    """A checkpoint that was put back gives the number to other input."""
    checkpoint = MemoryCheckpoint()
    checkpoint.offsets = {4: "a"}
    Decisions(checkpoint).add(4, {"refused": [1]})
    checkpoint.offsets = {4: "b"}
    assert Decisions(checkpoint).findings(4) == {}


def test_a_digest_names_the_ends_the_time_and_the_decisions():
    checkpoint = MemoryCheckpoint()
    checkpoint.offsets = {3: ["ends", "time"]}
    standing = {"gap": "wait", "held": 5}
    digest = Decisions(checkpoint).digest(3, standing)
    assert Decisions(checkpoint).digest(3, dict(reversed(standing.items()))) == digest
    assert Decisions(checkpoint).digest(3, {**standing, "held": 6}) != digest
    checkpoint.offsets = {3: ["ends", "another time"]}
    assert Decisions(checkpoint).digest(3, standing) != digest


def test_a_checkpoint_keeps_them(tmp_path):
    checkpoint = Checkpoint(str(tmp_path), "p")
    (tmp_path / "p" / "offsets").mkdir(parents=True)
    (tmp_path / "p" / "offsets" / "0").write_text("v1")
    decisions = Decisions(checkpoint)
    plan = planned("channel")
    assert decisions.standing(0, plan.decisions()) == plan.decisions()
    decisions.add(0, {"refused": []})
    again = Decisions(Checkpoint(str(tmp_path), "p"))
    assert again.entries == [(0, plan.decisions())]
    assert again.findings(0) == {"refused": []}


def test_a_renewal_is_later_than_all_that_there_was(tmp_path):
    """Also than what began under a clock that was ahead: an hour at batch 0, then two."""
    checkpoint = Checkpoint(str(tmp_path), "p")
    offsets = tmp_path / "p" / "offsets"
    offsets.mkdir(parents=True)
    now, hour_ms = 1_000_000, 3_600_000
    for batch, at_ms in enumerate((now + hour_ms, now)):
        entry = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": at_ms})
        (offsets / str(batch)).write_text(f"v1\n{entry}\n-")
    Decisions(checkpoint).renew(now, 2)
    began = Count(sequence=6, incarnation=now + hour_ms, last_ms=0)
    began.renew(Decisions(checkpoint).renewals[-1][0])
    assert (began.sequence, began.incarnation) == (0, now + hour_ms + 1)
    Decisions(checkpoint).renew(now + 2 * hour_ms, 2)
    Decisions(checkpoint).renew(now, 2)
    began.sequence = 7
    began.renew(Decisions(checkpoint).renewals[-1][0])
    assert (began.sequence, began.incarnation) == (0, now + 2 * hour_ms + 3)


def test_a_renewal_holds_for_a_batch_that_a_start_has_planned_and_no_more(tmp_path):
    """It ended before the batch's decisions were written: they are those of before, renewed."""
    checkpoint = Checkpoint(str(tmp_path), "p")
    for name in ("offsets/0", "commits/0", "offsets/1"):
        (tmp_path / "p" / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "p" / "offsets" / "0").write_text("v1\n{}\n-")
    Decisions(checkpoint).standing(0, {"gap": "wait"})
    (tmp_path / "p" / "commits" / "0").write_text("v1\n{}")
    Decisions(checkpoint).renew(7, 1)
    (tmp_path / "p" / "offsets" / "1").write_text("v1\n{}\n-")
    for _ in range(2):
        standing = Decisions(checkpoint).standing(1, {"gap": "fail"})
        assert standing == {"gap": "wait", "renewals": [[8, 1]]}


def test_a_moved_state_s_batches_are_counted_on():
    checkpoint = MemoryCheckpoint()
    kept = {"renewals": [[1_000, 17]], "before": "q", "batches_before": 20}
    checkpoint.write_decisions(kept)
    Decisions(checkpoint).renew(2_000, 1)
    decisions = Decisions(checkpoint)
    assert decisions.renewals[-1][1] == 21
    plan = planned("channel").under(decisions.standing(0, {}))
    assert plan.renewals == tuple(decisions.renewals)
    assert plan.batches_before == 20


@pytest.mark.parametrize("restarts", [True, False])
def test_where_the_clock_was_set_back_is_known_when_the_log_forgot_it(tmp_path, restarts):
    """Shards stay at the largest time that they had: keys that begin later begin then."""
    checkpoint = Checkpoint(str(tmp_path), "p")
    offsets = tmp_path / "p" / "offsets"
    offsets.mkdir(parents=True)
    decisions = Decisions(checkpoint)
    for batch, at_ms in enumerate((1_000, 9_000, 2_000, 3_000, 2_500)):
        (offsets / str(batch)).write_text(f'v1\n{{"batchTimestampMs":{at_ms}}}\n-')
        decisions = Decisions(checkpoint) if restarts else decisions
        decisions.note_clock(batch)
        assert decisions.newest_ms(batch) == (9_000 if batch else 1_000)
    for batch in range(3):
        (offsets / str(batch)).unlink()
    Decisions(checkpoint).renew(4_000, 5)
    assert Decisions(checkpoint).renewals == [(9_001, 5)]
    assert Decisions(checkpoint).newest_ms(4) == 9_002  # new keys begin a millisecond after it


def log_times(checkpoint, *times_ms):
    """Have batches planned at these times, all but the last one done."""
    checkpoint.offsets = dict(enumerate(times_ms))
    checkpoint.logged = lambda batch: b'v1\n{"batchTimestampMs":%d}' % checkpoint.offsets[batch]
    checkpoint.done = len(times_ms) - 2
    return Decisions(checkpoint)


def test_a_pause_stands_from_the_first_batch_that_comes_behind_it():
    checkpoint = MemoryCheckpoint()
    first = log_times(checkpoint, 10_000)
    first.note_pause(0, 0, 30_000)
    assert first.standing(0, {}) == {}, "nothing was before"
    in_doubt = log_times(checkpoint, 10_000, 11_000)
    in_doubt.note_pause(1, 0, 30_000)
    assert in_doubt.standing(1, {}) == {}, "it was planned before the stop"
    checkpoint.offsets[2] = 71_000
    in_doubt.note_pause(2, 4_000, 30_000)
    stop = {"pauses": [[11_000, 56_000]]}
    assert in_doubt.standing(2, {}) == stop, "it ran for 4 s after the start"
    checkpoint.offsets |= {3: 101_000, 4: 136_000}
    for batch in (3, 4):
        in_doubt.note_pause(batch, 1_000, 30_000)
    whole = {"pauses": [*stop["pauses"], [101_000, 34_000]]}
    assert in_doubt.standing(4, {}) == whole, "a process that stood still; 29 s are no pause"
    checkpoint.done = 3
    again = Decisions(checkpoint)
    assert again.standing(4, {}) == whole
    checkpoint.offsets[5] = 136_999
    again.note_pause(5, 0, 30_000)
    assert again.standing(5, {}) == whole, "less than a second"


def test_a_batch_that_is_planned_anew_has_one_pause_before_it():
    """It was taken out of the log when its pause was noted: with `--accept-lost-input`, or torn."""
    checkpoint = MemoryCheckpoint()
    first = log_times(checkpoint, 10_000, 11_000)
    checkpoint.offsets[2] = 71_000
    first.note_pause(2, 0, 30_000)
    first.standing(2, {})
    checkpoint.offsets[2] = 91_000
    again = Decisions(checkpoint)
    assert again.pauses == [(11_000, 60_000)]
    again.planned = 1
    again.note_pause(2, 0, 30_000)
    assert again.standing(2, {}) == {"pauses": [[11_000, 80_000]]}


def test_what_a_batch_leaves_unread_is_in_its_plan():
    """So a batch that is repeated waits as in its first run, however it ended."""
    decisions = log_times(MemoryCheckpoint(), 10_000, 11_000, 12_000)
    logged = decisions.checkpoint.logged
    source = b'\n{"in": {"0": 7}, "#": {"caught_up_ms": %d, "behind_ms": %d}}'
    assert decisions.unread(1) == {}
    sources = source % (9_000, 9_500) + source % (8_000, 9_700) + b"\n-"
    decisions.checkpoint.logged = lambda batch: logged(batch) + sources
    earlier = {"caught_up_ms": 8_000, "behind_ms": 9_500}
    assert decisions.unread(2) == earlier, "of two sources the one that is behind"


def test_each_entry_of_the_log_is_read_once():
    """Storage may be far away, and this is asked in every batch."""
    checkpoint, read = MemoryCheckpoint(), []
    decisions = log_times(checkpoint, 1_000, 2_000, 3_000, 4_000)
    decisions.planned, logged = -1, checkpoint.logged
    checkpoint.logged = lambda batch: (read.append(batch), logged(batch))[1]
    for batch in (1, 2, 3):
        decisions.note_clock(batch)
        decisions.note_pause(batch, 0, 30_000)
        decisions.digest(batch, {})
        decisions.newest_ms(batch)
    assert read == [0, 1, 2, 3]


def test_pauses_are_of_the_time_that_shards_have():
    """The clock was set back by an hour: until it has caught up, time stands for them."""
    hour_ms = 3_600_000
    decisions = log_times(MemoryCheckpoint(), hour_ms, 2 * hour_ms, hour_ms + 7, hour_ms + 99_000)
    decisions.planned = 2
    decisions.note_clock(2)
    decisions.note_pause(3, 0, 30_000)
    assert not decisions.pauses
    decisions.checkpoint.offsets[4] = 2 * hour_ms + 40_000
    decisions.note_pause(4, 0, 30_000)
    assert decisions.pauses == [(2 * hour_ms, 40_000)]


def test_of_many_pauses_the_last_ones_are_kept(monkeypatch):
    monkeypatch.setattr(decisions_module, "PAUSES_MAX", 2)
    decisions = log_times(MemoryCheckpoint(), 1_000, 11_000, 31_000, 71_000)
    decisions.planned = 0
    for batch in (1, 2, 3):
        decisions.note_pause(batch, 0, 5_000)
    assert decisions.pauses == [(11_000, 20_000), (31_000, 40_000)]


def test_an_operator_has_those_of_the_batch_whose_task_it_runs_in(monkeypatch):
    plan = planned("group")
    operator = BatchOperator(plan)
    operator.begin()
    assert operator.plan == plan, "outside of Spark"
    context = BatchContext("q", 3, decisions=planned("group", **CHANGED["group"]).decisions())
    task = SimpleNamespace(getLocalProperty=lambda _name: context.to_json())
    monkeypatch.setattr(TaskContext, "_taskContext", task)
    operator.begin()
    assert (operator.plan.stamps, operator.plan.retire_after_ms) == (False, 1_000)
    assert operator.core(0).plan == operator.plan
