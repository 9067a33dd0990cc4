"""What a checkpoint folder tells and keeps."""

import errno
import json
import os
from dataclasses import replace

import pytest

from streaming.config import parse_config
from streaming.disciplines.groups import GROUP
from streaming.disciplines.multicast import MULTICAST
from streaming.disciplines.state_row import FORMATS_READ, STATE_FORMAT
from streaming.errors import ConfigError, SequencerError, StateFormatError, StorageUnavailable
from streaming.service import holder
from streaming.service.checkpoint import Checkpoint, Identity

LINEAR = {"labels": {"kind": "linear"}, "channel": "key"}


def test_a_checkpoint_keeps_what_may_not_change(tmp_path):
    checkpoint = Checkpoint(str(tmp_path), "p")
    first = Identity("channel", 16, 2, ["in"], LINEAR)
    assert checkpoint.pin(first) == first == checkpoint.identity()
    assert checkpoint.pin(replace(first, state_partitions=8)).state_partitions == 2
    assert checkpoint.pin(replace(first, shards=4), ("shards",)).shards == 16
    for changed in (
        {"shards": 32},
        {"inputs": ["another"]},
        {"own": {**LINEAR, "labels": {"kind": "cyclic"}}},
        {"own": {**LINEAR, "channel": "value"}},
    ):
        with pytest.raises(ConfigError, match="was made with") as refused:
            checkpoint.pin(replace(first, **changed))
        assert ("sequencer rescale" in refused.value.remedy) == ("shards" in changed)


def test_the_first_membership_of_a_checkpoint_stays(tmp_path):
    checkpoint = Checkpoint(str(tmp_path), "p")
    own = {"groups": {"G": ["A"]}, "nodes": 4, "sender_order": "group", "sequencing": "network"}
    first = checkpoint.pin(Identity("group", 16, 2, ["in"], own))
    assert checkpoint.pin(replace(first, own={**own, "groups": {}})).own["groups"] == {"G": ["A"]}
    with pytest.raises(ConfigError, match="set the pipeline's nodes back"):
        checkpoint.pin(replace(first, own={**own, "nodes": 5}))


OF_0_1_0 = {"channel": "key", "discipline": "channel", "inputs": ["in"], "shards": 6,
    "labels": {"kind": "linear", "start": 0, "step": 1}, "state_partitions": 2}  # fmt: skip
"""What version 0.1.0 wrote: no format."""


@pytest.mark.parametrize("form", [None, min(FORMATS_READ) - 1, STATE_FORMAT + 1])
def test_a_checkpoint_of_another_version_is_refused(tmp_path, form):
    stated = OF_0_1_0 if form is None else {**OF_0_1_0, "format": form}
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "identity.json").write_text(json.dumps(stated))
    checkpoint = Checkpoint(str(tmp_path), "p")
    said = "states no format" if form is None else f"has format {form}"
    for ask in (
        checkpoint.identity,
        lambda: checkpoint.pin(Identity("channel", 6, 2, ["in"], LINEAR)),
    ):
        with pytest.raises(StateFormatError, match=f"{said}; this version reads") as refused:
            ask()
    assert "start this one with a new checkpoint folder" in refused.value.remedy


def test_multicasts_of_an_older_version_stay_in_their_order(tmp_path):
    """A file that says nothing of the order meant the clock then, and the batch now."""
    checkpoint = Checkpoint(str(tmp_path), "p")

    def wanted(**table):
        config = parse_config({"pipelines": {"p": {"discipline": "multicast", **table}}}, {}, "c")
        return Identity("multicast", 16, 2, ["in"], MULTICAST.identity(config.pipelines["p"]))

    checkpoint.write_identity(wanted(order="clock"))
    assert checkpoint.pin(wanted(order="clock")).own["order"] == "clock"
    with pytest.raises(ConfigError, match='order is "batch".* made with "clock"') as refused:
        checkpoint.pin(wanted())
    assert 'write order = "clock" into its table' in refused.value.remedy


@pytest.mark.parametrize(
    ("groups", "records"),
    [({"G0": range(128), "G1": range(72)}, 10_000), ({}, None), ({"G": range(1)}, 1_000_000)],
)
def test_a_batch_takes_what_gives_about_a_million_deliveries(groups, records):
    table = {name: [f"s{n}" for n in some] for name, some in groups.items()}
    pipelines = {"p": {"discipline": "group", "groups": table}}
    settings = parse_config({"pipelines": pipelines}, {}, "c").pipelines["p"]
    assert GROUP.pace(settings).records_max == records


def test_the_batch_in_doubt_is_the_one_planned_but_not_done(tmp_path):
    checkpoint = Checkpoint(str(tmp_path), "p")
    assert checkpoint.batch_in_doubt() == -1
    for name in ("offsets/0", "offsets/1", "commits/0", "offsets/.2.crc"):
        path = tmp_path / "p" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert checkpoint.batch_in_doubt() == 1
    (tmp_path / "p" / "commits" / "1").touch()
    assert checkpoint.batch_in_doubt() == -1


def test_a_checkpoint_that_was_moved_is_refused(tmp_path):
    checkpoint, identity = (
        Checkpoint(str(tmp_path), "p"),
        Identity("channel", 16, 2, ["in"], LINEAR),
    )
    checkpoint.pin(identity)
    checkpoint.mark_moved("elsewhere", 32)
    with pytest.raises(ConfigError, match="was moved from") as refused:
        checkpoint.pin(identity)
    assert "service.shards = 32" in refused.value.remedy


def test_a_checkpoint_that_is_being_moved_to_is_refused(tmp_path):
    checkpoint = Checkpoint(str(tmp_path), "p")
    identity = Identity("channel", 16, 2, ["in"], LINEAR)
    (tmp_path / "p" / "state" / "0").mkdir(parents=True)
    checkpoint.write_identity(identity)
    checkpoint.begin_move("elsewhere")
    assert [path.name for path in (tmp_path / "p").iterdir()] == ["moving.json"]
    checkpoint.write_identity(identity)
    with pytest.raises(ConfigError, match="not moved all the way from elsewhere"):
        checkpoint.pin(identity)
    checkpoint.end_move()
    assert checkpoint.pin(identity) == identity


@pytest.mark.parametrize("later", [(), ("offsets/5",)])
def test_a_batch_in_doubt_whose_beginning_is_lost_is_refused(tmp_path, later):
    """Also if a plan behind it is there, which will be removed."""
    checkpoint = Checkpoint(str(tmp_path), "p")
    identity = Identity("channel", 16, 2, ["in"], LINEAR)
    checkpoint.pin(identity)
    for name in ("offsets/3", "offsets/4", "commits/3", *later):
        (tmp_path / "p" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "p" / name).write_text("v1\n{}")
    (tmp_path / "p" / "metadata").write_text('{"id": "a query"}')
    (tmp_path / "p" / "decisions.json").write_text("{}")
    assert checkpoint.pin(identity) == identity
    (tmp_path / "p" / "offsets" / "3").unlink()
    with pytest.raises(SequencerError, match="offsets/3 is missing, though batches are logged"):
        checkpoint.pin(identity)


@pytest.mark.parametrize(
    "name", ["identity.json", "metadata", "offsets/2", "offsets/3", "decisions.json"]
)
def test_a_checkpoint_that_lacks_what_its_batches_need_is_refused(tmp_path, name):
    checkpoint = Checkpoint(str(tmp_path), "p")
    identity = Identity("channel", 16, 2, ["in"], LINEAR)
    checkpoint.pin(identity)
    for log in ("offsets", "commits"):
        (tmp_path / "p" / log).mkdir()
        for batch in range(4):
            (tmp_path / "p" / log / str(batch)).write_text("v1\n{}")
    (tmp_path / "p" / "metadata").write_text('{"id": "a query"}')
    (tmp_path / "p" / "decisions.json").write_text("{}")
    assert checkpoint.pin(replace(identity, state_partitions=8)) == identity
    path = tmp_path / "p" / name
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(SequencerError, match=f"{name} is missing, though batches are logged"):
        checkpoint.pin(replace(identity, state_partitions=8))
    path.write_bytes(content)
    assert checkpoint.pin(identity) == identity
    if name in ("identity.json", "metadata"):
        path.write_bytes(content[:-1])
        with pytest.raises(SequencerError, match=f"{name} is damaged"):
            checkpoint.pin(identity)


@pytest.mark.parametrize(
    ("there", "torn"),
    [
        (["offsets/0"], ["metadata", "offsets/0"]),
        (["offsets/0"], ["metadata"]),
        (["offsets/0", "offsets/1", "commits/0"], ["offsets/1"]),
        (["offsets/0", "offsets/1", "commits/0", "commits/1"], ["commits/1"]),
        (["offsets/0", "offsets/1", "offsets/2", "commits/0"], ["offsets/2", "offsets/1"]),
        (
            ["offsets/0", "offsets/1", "offsets/2", "commits/0", "commits/1", "commits/2"],
            ["commits/1", "commits/2", "offsets/2"],
        ),
    ],
)
def test_what_a_power_cut_tore_is_mended_by_the_next_start(tmp_path, there, torn):
    """Which looks first whether all is there. Nothing is synced: several entries may be torn."""
    checkpoint = Checkpoint(str(tmp_path), "p")
    identity = Identity("channel", 16, 2, ["in"], LINEAR)
    checkpoint.pin(identity)
    for name in there:
        (tmp_path / "p" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "p" / name).write_text("v1\n{}")
    (tmp_path / "p" / "metadata").write_text('{"id": "a query"}')
    (tmp_path / "p" / "decisions.json").write_text("{}")
    for name in torn:
        (tmp_path / "p" / name).write_text("")
    assert checkpoint.pin(identity) == identity
    checkpoint.mend()
    for name in [*there, "metadata"]:
        assert (tmp_path / "p" / name).exists() == (name not in torn)


@pytest.mark.parametrize("done", [-1, 0, 1])
@pytest.mark.parametrize("is_torn", [True, False])
def test_a_plan_behind_a_batch_that_is_not_done_any_more_is_removed(tmp_path, done, is_torn):
    """It was made when the batch before it was done; the power cut took that (seed 5026935)."""
    checkpoint = Checkpoint(str(tmp_path), "p")
    checkpoint.pin(Identity("channel", 16, 2, ["in"], LINEAR))
    planned, lost = done + 2, done + 1
    for name in [f"{log}/{n}" for log in ("offsets", "commits") for n in range(planned + 1)]:
        (tmp_path / "p" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "p" / name).write_text("v1\n{}")
    (tmp_path / "p" / "commits" / str(planned)).unlink()
    (tmp_path / "p" / "metadata").write_text('{"id": "a query"}')
    last = tmp_path / "p" / "commits" / str(lost)
    last.write_text("") if is_torn else last.unlink()
    checkpoint.mend()
    assert (checkpoint.done(), checkpoint.planned()) == (done, lost)


@pytest.mark.parametrize("done", [0, 3])
@pytest.mark.parametrize("removed", [None, 0, 1])
def test_a_batch_whose_plan_is_torn_is_not_done_any_more(tmp_path, monkeypatch, done, removed):
    """Spark would run the one before it again, or pass over what is planned anew (seed 1900071).

    If it was written, its progress in Kafka shows it. ``removed``: how many files a start removes
    before it is killed; the next one goes on.
    """
    checkpoint = Checkpoint(str(tmp_path), "p")
    identity = Identity("channel", 16, 2, ["in"], LINEAR)
    checkpoint.pin(identity)
    for name in [f"{log}/{n}" for log in ("offsets", "commits") for n in range(done + 1)]:
        (tmp_path / "p" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "p" / name).write_text("v1\n{}")
    (tmp_path / "p" / "metadata").write_text('{"id": "a query"}')
    (tmp_path / "p" / "decisions.json").write_text("{}")
    (tmp_path / "p" / "offsets" / str(done)).write_text("")
    if removed is not None:
        remove, left = checkpoint._remove_logged, iter(range(removed))
        monkeypatch.setattr(checkpoint, "_remove_logged", lambda name: (next(left), remove(name)))
        with pytest.raises(StopIteration):
            checkpoint.mend()
        checkpoint = Checkpoint(str(tmp_path), "p")
    assert checkpoint.pin(identity) == identity
    assert checkpoint.mend() == [f"offsets/{done}"]
    assert checkpoint.done() == checkpoint.planned() == done - 1


def test_a_first_batch_that_a_power_cut_left_without_its_query_runs_in_another(tmp_path):
    """Nothing of it was written: before that the disk has the query's name, with or without sync."""
    checkpoint = Checkpoint(str(tmp_path), "p")
    identity = Identity("channel", 16, 2, ["in"], LINEAR)
    checkpoint.pin(identity)
    (tmp_path / "p" / "offsets").mkdir()
    (tmp_path / "p" / "offsets" / "0").write_text("v1\n{}")
    assert checkpoint.pin(identity) == identity
    assert checkpoint.mend() == ["metadata"]
    assert not checkpoint.query()
    assert checkpoint.batch_in_doubt() == 0


@pytest.mark.parametrize("name", ["status.json", "waiting.json"])
@pytest.mark.parametrize("text", ["", '{"batch": 1, "sha'])
def test_figures_that_are_damaged_are_removed(tmp_path, name, text):
    """They are only shown: what is delivered rests on other files."""
    checkpoint = Checkpoint(str(tmp_path), "p")
    checkpoint.write_status({"batch": 1})
    checkpoint.write_waiting({0: "some"})
    assert checkpoint.remove_damaged_figures() == []
    (tmp_path / "p" / name).write_text(text)
    assert checkpoint.remove_damaged_figures() == [f"{tmp_path}/p/{name}"]
    assert not (tmp_path / "p" / name).exists()
    assert checkpoint.remove_damaged_figures() == []


def test_a_lock_that_cannot_be_opened_is_said(tmp_path):
    """As in a backup that root put back; root itself may open any but this one."""
    (tmp_path / "p" / "lock").mkdir(parents=True)
    with pytest.raises(StorageUnavailable, match=r"cannot be used: lock: Is a directory"):
        Checkpoint(str(tmp_path), "p").claim()


def test_a_file_system_without_locks_is_said(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(holder.fcntl, "flock", flock)
    with pytest.raises(StorageUnavailable, match="cannot be locked: No locks available"):
        Checkpoint(str(tmp_path), "p").claim()
