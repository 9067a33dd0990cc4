"""What foreachBatch does around a batch; the batches themselves: `tests/spark`."""

import threading
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from streaming.arrow.totals import Totals
from streaming.disciplines.plan import BatchContext
from streaming.disciplines.refused import FINDING
from streaming.errors import (
    CheckpointBehind,
    Fenced,
    InputChanged,
    JobFailed,
    KafkaUnavailable,
    StorageUnavailable,
)
from streaming.service import query
from streaming.service.decisions import CHANGED, Decisions
from streaming.service.progress import Progress
from streaming.service.query import BatchFailed, Carrier
from streaming.sink import failures
from streaming.sink.sink import Report, Written
from streaming.spark.failures import as_sequencer_error
from tests.checkpoints import MemoryCheckpoint
from tests.streaming.service.carriers import carrier

WAIT_SECONDS_MAX = 30


def test_a_batch_that_is_planned_when_a_stop_comes_is_written(monkeypatch):
    """Else the next start would have a batch in doubt behind a clean stop."""
    mine, written = carrier(), []
    monkeypatch.setattr(mine, "_write", lambda *batch: written.append(batch))
    mine.begin("q")
    mine.stopping.set()
    mine(None, 0)
    assert written == [(None, 0)]
    assert mine.failure is None


def test_a_batch_waits_until_the_query_s_name_is_known(monkeypatch):
    mine = carrier()
    ended = threading.Event()
    monkeypatch.setattr(mine, "_write", lambda *_batch: ended.set())
    thread = threading.Thread(target=mine, args=(None, 0), daemon=True)
    thread.start()
    assert not ended.wait(0.2)
    mine.begin("q")
    assert ended.wait(WAIT_SECONDS_MAX)
    thread.join(WAIT_SECONDS_MAX)
    assert mine.progress.query == "q"


def test_no_batch_runs_where_the_query_s_name_does_not_come(monkeypatch):
    """It would note progress under no name; the failure passes, so the query is started again."""
    monkeypatch.setattr(query, "BEGIN_SECONDS_MAX", 0.05)
    mine, written = carrier(), []
    monkeypatch.setattr(mine, "_write", lambda *batch: written.append(batch))
    with pytest.raises(BatchFailed):
        mine(None, 0)
    assert not written
    failure = as_sequencer_error(mine.failure)
    assert failure is mine.failure
    assert "name" in failure.message
    assert not isinstance(failure, JobFailed)


def test_a_failure_is_kept_and_the_batch_is_not_done():
    told = []
    mine = carrier(told.append)
    mine.begin("q")
    with pytest.raises(BatchFailed):
        mine(None, 4)  # no data frame: whatever is asked of it fails
    assert isinstance(mine.failure, AttributeError)
    assert mine.progress.batch == -1
    assert told == []


def test_a_batch_that_has_other_records_on_its_repetition_is_noted(monkeypatch):
    """`--accept-repeats` goes by it."""
    mine = carrier()
    monkeypatch.setattr(query, "collected", failing)
    mine.begin("q")
    with pytest.raises(BatchFailed):
        mine(SimpleNamespace(sparkSession=MagicMock()), 4)
    assert Decisions(mine.checkpoint).findings(4) == {CHANGED: True}


@pytest.mark.parametrize(
    ("discipline", "counts", "differ"),
    [
        ("group", (5, 4), True),
        ("multicast", (5, 0), True),
        ("group", (5, 5), False),
        ("channel", (5, 4), False),
    ],
)
def test_shards_that_count_on_the_same_records_have_to_get_them(
    monkeypatch, discipline, counts, differ
):
    """Compaction may come between the reads of two state partitions."""
    mine = carrier(discipline=discipline)
    reports = [
        Report(at, True, Written(), [(at, Totals(read=count).to_json())])
        for at, count in enumerate(counts)
    ]
    monkeypatch.setattr(query, "collected", lambda *_: [each.to_text() for each in reports])
    mine.begin("q")
    frame = SimpleNamespace(sparkSession=MagicMock())
    if not differ:
        mine(frame, 4)
        return
    with pytest.raises(BatchFailed):
        mine(frame, 4)
    assert isinstance(mine.failure, InputChanged)
    assert Decisions(mine.checkpoint).findings(4) == {CHANGED: True}
    assert mine.progress.batch == -1


@pytest.mark.parametrize(
    ("claim", "finds", "error"),
    [
        (SimpleNamespace(renew=lambda _batch: None), True, KafkaUnavailable),
        (SimpleNamespace(renew=lambda _batch: None), False, CheckpointBehind),
        (None, True, CheckpointBehind),
    ],
)
def test_a_copy_that_writes_on_behind_the_claim_does_not_end_its_successor(
    monkeypatch, claim, finds, error
):
    """Seeds 7030057, 7030720: the last holder found refused records, which the progress counts."""
    mine = carrier(claim=claim)

    def write(*_batch):
        if finds:
            Decisions(mine.checkpoint).add(4, {FINDING: [[]]})
        raise CheckpointBehind("Older than its output.")

    monkeypatch.setattr(mine, "_write", write)
    mine.begin("q")
    with pytest.raises(BatchFailed):
        mine(None, 4)
    assert type(mine.failure) is error


def test_a_checkpoint_that_does_not_answer_says_nothing_of_another_copy(monkeypatch):
    """The storage will answer again: then the next start judges it."""
    mine = carrier(claim=SimpleNamespace(renew=lambda _batch: None))

    def away():
        raise StorageUnavailable("It does not answer.")

    def write(*_batch):
        monkeypatch.setattr(mine.checkpoint, "decisions", away)
        raise CheckpointBehind("Older than its output.")

    monkeypatch.setattr(mine, "_write", write)
    mine.begin("q")
    with pytest.raises(BatchFailed):
        mine(None, 4)
    assert isinstance(mine.failure, StorageUnavailable)


def test_who_finds_what_its_successor_wrote_does_not_take_it_for_a_restored_checkpoint(monkeypatch):
    """Its state was written late; the other went on meanwhile."""
    renewals = iter([None, failures.fenced()])

    def renew(_batch):
        if (error := next(renewals)) is not None:
            raise error

    def write(*_batch):
        raise CheckpointBehind("Older than its output.")

    mine = carrier(claim=SimpleNamespace(renew=renew))
    monkeypatch.setattr(mine, "_write", write)
    mine.begin("q")
    with pytest.raises(BatchFailed):
        mine(None, 4)
    assert isinstance(mine.failure, Fenced)


@pytest.mark.parametrize("planned", [4, 5])
def test_what_its_predecessor_writes_late_does_not_replace_what_is_decided(monkeypatch, planned):
    """A start would repeat a batch by other rules than those by which some of it is written."""
    mine = carrier(claim=SimpleNamespace(renew=lambda _batch: None))
    monkeypatch.setattr(mine, "_write", lambda *_batch: None)
    mine.begin("q")
    mine.decisions.planned = planned
    mine.decisions.standing(3, {"gap": "skip"})
    kept = mine.checkpoint.decisions()
    mine.checkpoint.write_decisions({"found": [4, "", {FINDING: [[]]}]})
    mine(None, 5)
    assert (mine.checkpoint.decisions() == kept) == (planned == 4)


def test_schemas_that_are_forgotten_are_no_work_of_another_copy():
    checkpoint = MemoryCheckpoint()
    checkpoint.write_decisions({"schemas": {"1": "a", "2": "b"}})
    decisions = Decisions(checkpoint)
    del decisions.schemas["1"]
    assert decisions.are_kept()


def test_who_has_lost_the_checkpoint_writes_no_findings():
    """They would take the place of what its new holder decided."""

    def taken(_batch):
        raise Fenced("Another copy.")

    mine = carrier(claim=SimpleNamespace(renew=taken))
    report = Report(0, False, Written(), [(1, '{"read":3}')], refused=[{"detail": "d"}])
    with pytest.raises(Fenced):
        mine._without([report], mine._context(4))
    assert Decisions(mine.checkpoint).findings(4) == {}


def failing(*_arguments):
    raise InputChanged("Other records.")


def test_totals_are_those_of_all_shards():
    shards = {0: Totals(seen=3, rejected={"late": 1}), 5: Totals(seen=4, rejected={"late": 2})}
    totals = Progress(shards=shards).totals()
    assert (totals.seen, totals.rejected) == (7, {"late": 3})
    assert Progress().totals() == Totals()


def test_each_answer_is_said_once(monkeypatch):
    """Those of channels are in their shards' totals, those of groups and multicasts in a report."""
    said = []
    monkeypatch.setattr(query, "say_commands", lambda _, answers: said.extend(answers))
    mine = carrier()
    monkeypatch.setattr(mine, "_context", lambda _: None)
    skip, add = {"op": "skip"}, {"op": "add"}
    channels = [(0, Totals(answers=[skip]).to_json()), (1, Totals().to_json())]
    reports = [
        Report(0, False, Written(), []),
        Report(1, True, Written(), channels),
        Report(2, True, Written(), [(2, Totals().to_json())], answers=[add]),
    ]
    monkeypatch.setattr(mine, "_run", lambda *_: reports)
    mine._write(None, 0)
    assert said == [skip, add]


def test_another_run_of_a_batch_goes_on_with_no_session_of_before():
    """The run that was refused has fenced them where it wrote in other workers."""
    carrier = SimpleNamespace(progress=Progress(wrote={0: 4, 1: 4}))
    again = Carrier._again(carrier, BatchContext("q", 5, wrote={0: 4, 1: 4}), {"schemas": 1})
    assert again == BatchContext("q", 5, decisions={"schemas": 1})
    assert not carrier.progress.wrote
    found = Report(0, True, Written(found=1), []).with_first(Written(transactions=2))
    assert found == Report(0, False, Written(transactions=2), [])


def test_what_a_partition_may_have_written_last_is_of_any_run_of_a_batch(monkeypatch):
    """Progress beyond it is another copy's; the run that was refused notes some, too."""
    mine, refused = carrier(), [{"role": "output", "detail": "too large"}]
    mine.progress.latest = dict.fromkeys(range(4), 2)
    runs = iter(
        [
            [Report(0, True, Written(1), []), Report(1, False, Written(), [], refused)],
            [Report(0, True, Written(found=1), []), Report(2, False, Written(), [])],
        ]
    )
    monkeypatch.setattr(query, "collected", lambda *_: [each.to_text() for each in next(runs)])
    monkeypatch.setattr(mine.checkpoint, "logged", lambda _batch: b"", raising=False)
    mine._run(MagicMock(), BatchContext("q", 4))
    assert mine.progress.latest == {0: 4, 1: 4, 2: 2, 3: 2}
