"""What moves to a new checkpoint beside the shards' states, and when nothing does."""

import json
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

from sequencer.channels import Rules
from sequencer.labels import LinearLabels
from streaming.arrow.totals import Totals
from streaming.cli.blocked import who_waits
from streaming.config import parse_config
from streaming.disciplines import DISCIPLINES
from streaming.disciplines.plan import BatchContext
from streaming.disciplines.reshard import Resharded
from streaming.disciplines.state_row import StateRow
from streaming.errors import (
    ConfigError,
    Fenced,
    JobFailed,
    SequencerError,
    StorageUnavailable,
)
from streaming.service.checkpoint import Checkpoint, Identity
from streaming.service.insight import look
from streaming.service.move_checks import UNCHANGED, require_free, require_same
from streaming.service.planning import kept_partitions
from streaming.service.rescale import (
    Target,
    _carry_status,
    _require_done,
    _written,
    rescale,
)
from streaming.sink.claim import Claim
from streaming.sink.progress import NOTHING, BatchProgress, nothing_since
from streaming.sink.writer import writer_for
from tests.kafka_helpers import create_topics
from tests.streaming.disciplines.channels.plans import plan as channel_plan
from tests.streaming.disciplines.groups.networks import plan_for as network_plan
from tests.streaming.disciplines.multicast.floors import plan_for as multicast_plan


class Old:
    """A checkpoint whose last batch was begun, and perhaps no more."""

    pipeline = "p"

    def __init__(self, doubtful=-1, status=None, decisions=None):
        self.doubtful = doubtful
        self._status = {"query": "q"} if status is None else status
        self._decisions = decisions or {}

    def status(self):
        return self._status

    def query(self):
        return "q"

    def batch_in_doubt(self):
        return self.doubtful

    def done(self):
        return 4

    def planned(self):
        return max(self.done(), self.doubtful)

    def logged_if_kept(self, batch):
        return b"v1\n{}\n%d" % batch

    def decisions(self):
        return self._decisions


class New:
    """Keeps what is written to it."""

    def __init__(self):
        self.wrote = {}

    def query(self):
        return "of the new one"

    def __getattr__(self, name):
        return lambda value: self.wrote.update({name.removeprefix("write_"): value})


GROUPS = {"G": ["A", "B"]}
MULTICAST = {"discipline": "multicast"}


@pytest.mark.parametrize(
    "plan", [network_plan(GROUPS), multicast_plan("clock"), channel_plan(Rules(LinearLabels()))]
)
def test_at_least_once_a_batch_that_was_begun_has_to_end(plan):
    """Nobody can tell what of it is written: planned anew, it may give these names to others."""
    plan = replace(plan, delivery="at-least-once")
    with pytest.raises(JobFailed, match="was begun, and may be written in part"):
        _require_done(Old(doubtful=5), plan, [])
    _require_done(Old(), plan, [])
    with pytest.raises(JobFailed, match="was begun"):
        _require_done(Old(status={}), plan, [])


@pytest.mark.parametrize(
    "progress",
    [
        BatchProgress(5, "q", "of a copy that went on"),
        BatchProgress(3, "q", "of another history"),
        BatchProgress(4, "q", nothing_since(1_000)),
        BatchProgress(5, "q", NOTHING),
    ],
)
def test_a_checkpoint_that_was_put_back_is_not_moved(progress):
    """What was written since would come again under the same incarnations, for good."""
    plan = channel_plan(Rules(LinearLabels()))
    with pytest.raises(JobFailed, match="is behind what was written from it"):
        _require_done(Old(), plan, [None, progress])
    _require_done(Old(), plan, [replace(progress, query="another")])


def test_a_checkpoint_whose_repeats_were_accepted_is_moved():
    plan = channel_plan(Rules(LinearLabels()))
    decisions = {"renewals": [[1_000, 5]]}
    taken_back = [BatchProgress(4, "q", nothing_since(1_000)), BatchProgress(4, "q", NOTHING)]
    _require_done(Old(decisions=decisions), plan, taken_back)


def test_a_checkpoint_that_has_lost_its_identity_is_not_passed_over(tmp_path):
    for name in ("offsets/0", "offsets/1", "commits/0", "commits/1", "metadata"):
        path = tmp_path / "old" / "p" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("v1\n{}")
    service = SimpleNamespace(checkpoint=str(tmp_path / "old"), sync=True)
    config, said = SimpleNamespace(service=service, spark={}), []
    with pytest.raises(SequencerError, match=r"identity\.json is missing"):
        rescale(None, config, ["p"], Target(str(tmp_path / "new"), 4, 4), said.append)
    assert not said


def test_renewals_keep_their_batches_and_keys_their_partitions():
    """What is still in transit names the old query's batches; the output was given partitions."""
    totals = Totals(seen=7, delivered=5, held=2)
    last = {"partitions": {"out": 2}}
    kept = {"renewals": [[1_000, 17]], "peak_ms": 2_000}
    decisions = {**kept, "standing": [[3, {}], [5, last]]}
    old = Old(status={"shards": {"3": asdict(totals)}}, decisions=decisions)
    new = New()
    _carry_status(old, new, Resharded([(8, StateRow(0, totals.to_json(), ""))], {8: "who"}))
    wrote = json.loads(json.dumps(new.wrote["decisions"]))
    assert wrote == {**kept, "standing": [[0, last]], "before": "q", "batches_before": 4}
    said = []
    kept = kept_partitions(Old(decisions=wrote), {"out": 5}, lambda text, **_: said.append(text))
    assert kept == {"out": 2}
    assert "Its keys stay in the first 2" in said[0]
    assert new.wrote["waiting"] == {8: "who"}
    assert [*new.wrote["status"]["shards"]] == ["8"]
    assert new.wrote["status"]["query"] == new.query()
    more = Totals(seen=8).to_json()
    with pytest.raises(JobFailed, match="would be others"):
        _carry_status(old, new, Resharded([(8, StateRow(0, more, ""))], {}))


def test_nothing_is_moved_to_where_something_else_is(tmp_path):
    new = Checkpoint(str(tmp_path), "p", synced=False)
    require_free(new, "elsewhere")
    (tmp_path / "p").mkdir()
    require_free(new, "elsewhere")
    (tmp_path / "p" / "accounts.csv").write_text("mine")
    with pytest.raises(ConfigError, match="is not empty"):
        require_free(new, "elsewhere")
    (tmp_path / "p" / "accounts.csv").rename(tmp_path / "p" / "accounts.new")
    with pytest.raises(ConfigError, match="is not empty"):
        require_free(new, "elsewhere")
    (tmp_path / "p" / "accounts.new").rename(tmp_path / "p" / "moving.json.new")
    require_free(new, "elsewhere")
    new.begin_move("elsewhere")
    (tmp_path / "p" / "offsets").mkdir()
    require_free(new, "elsewhere")
    with pytest.raises(ConfigError, match="is not of this move"):
        require_free(new, "another service's checkpoint")


@pytest.mark.parametrize(
    ("shards", "said"), [(None, "and is not there"), (6, "before, with 6 shards; --shards is 5")]
)
def test_a_move_that_was_interrupted_goes_on_with_the_numbers_that_it_began_with(
    tmp_path, shards, said
):
    """One pipeline is there, and closed where it was; the other one would get other numbers."""
    old, new = (str(tmp_path / name) for name in ("old", "new"))
    Checkpoint(old, "p").mark_moved(new, 6)
    there = Checkpoint(new, "p")
    there.begin_move(f"{old}/p")
    if shards:
        there.write_identity(Identity("multicast", shards, 2, ["in"], {"order": "batch"}))
    service = SimpleNamespace(checkpoint=old, sync=True)
    config, done = SimpleNamespace(service=service, spark={}), []
    with pytest.raises(ConfigError, match=said):
        rescale(None, config, ["p"], Target(new, 5, 2), done.append)
    assert there.is_moved_from(f"{old}/p")
    if shards:
        rescale(None, config, ["p"], Target(new, shards, 3), done.append)
        assert done == ["p: moved before"]
        assert not there.is_moved_from(f"{old}/p")


def test_a_service_that_no_lock_keeps_away_writes_nothing_once_its_state_is_moved(
    broker, topic_prefix
):
    create_topics(broker.bootstrap, {f"{topic_prefix}out": 1, f"{topic_prefix}events": 1})
    plan = replace(
        channel_plan(Rules(LinearLabels())),
        service=topic_prefix,
        output=f"{topic_prefix}out",
        events=f"{topic_prefix}events",
        producer={"bootstrap.servers": broker.bootstrap},
    )
    running, context = Claim(plan), BatchContext("q", 0)
    running.take()
    writer = writer_for(plan, 0, context)
    with writer.batch(context):
        pass
    _written(plan, lockable=False)
    with pytest.raises(Fenced):
        running.renew(1)
    with pytest.raises(Fenced), writer.batch(BatchContext("q", 1, wrote={0: 0})):
        pass


@pytest.mark.parametrize(
    ("ran", "own", "told"),
    [
        ("group", {"groups": {"G": ["a"]}, "sequencing": "network"}, "discipline"),
        ("multicast", {"order": "clock"}, "order"),
        ("multicast", {"input": "other"}, "inputs"),
    ],
)
def test_a_file_that_is_not_as_it_ran_is_refused_before_anything_is_moved(tmp_path, ran, own, told):
    def configured(discipline, more):
        tables = {"p": {"discipline": discipline, **more}}
        service = {"checkpoint": str(tmp_path / "old")}
        return parse_config({"service": service, "pipelines": tables}, {}, "test")

    before = configured(ran, own).pipelines["p"]
    pinned = DISCIPLINES[ran].identity(before)
    old = Checkpoint(str(tmp_path / "old"), "p")
    old.write_identity(Identity(ran, 2, 2, sorted(before.input), pinned))
    old.write_status({"batch": 1})
    now = configured("multicast", {})
    said = f"pipelines.p: {told} is .*, but the checkpoint .* was made with"
    with pytest.raises(ConfigError, match=said):
        rescale(None, now, ["p"], Target(str(tmp_path / "new"), 4, 4), print)
    assert not (tmp_path / "new").exists()
    if told == "inputs":
        return  # the state does not depend on them
    with pytest.raises(ConfigError, match=said):
        look(None, now, "p")
    old.write_waiting({0: "of another discipline or order"})
    with pytest.raises(ConfigError, match=said):
        who_waits(now, {"p": 1}, 10)


def test_a_full_disk_says_that_nothing_was_changed_and_what_to_do(tmp_path, monkeypatch):
    """No batch was under way that would be repeated."""
    tables = {"service": {"checkpoint": str(tmp_path / "old")}, "pipelines": {"p": MULTICAST}}
    config = parse_config(tables, {}, "test")
    own = DISCIPLINES["multicast"].identity(config.pipelines["p"])
    Checkpoint(str(tmp_path / "old"), "p").write_identity(
        Identity("multicast", 2, 2, ["p.in"], own)
    )

    def full(*_):
        raise StorageUnavailable("No room.", "The batch will be repeated.", "Make room.")

    monkeypatch.setattr("streaming.service.rescale._move", full)
    with pytest.raises(StorageUnavailable) as raised:
        rescale(None, config, ["p"], Target(str(tmp_path / "new"), 4, 4), print)
    assert raised.value.effect == UNCHANGED
    assert raised.value.remedy == "Make room. Then give this command again."


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ([{"key": "b"}, {"key": "a"}], ""),
        ([{"key": "a"}, {"key": "c"}], '"c"'),
        ([{"key": "a"}], '"b"'),
        ([{"key": "a"}, {"key": "b"}, {"key": "b"}], "how often"),
        ([{"key": "a"}, {"key": "a"}], '"b"'),
    ],
)
def test_what_is_moved_is_what_was_there_in_any_order(after, said):
    def compare():
        require_same(lambda: iter([{"key": "a"}, {"key": "b"}]), lambda: iter(after), "p")

    if not said:
        compare()
        return
    with pytest.raises(JobFailed, match=said):
        compare()
