"""What a start leaves of Spark's logs when a power cut tore entries that were not synced."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.errors import SequencerError
from streaming.service.checkpoint import Checkpoint, Identity
from streaming.spark.spark_files import torn_entries
from streaming.storage import files

IDENTITY = Identity("channel", 16, 2, ["in"], {"labels": {"kind": "linear"}, "channel": "key"})
OFFSETS_MAX = 6


def logged(tmp_path, offsets, commits, torn=()):
    """A checkpoint with entries of these batches."""
    checkpoint = Checkpoint(str(tmp_path), "p")
    checkpoint.pin(IDENTITY)
    names = [f"offsets/{batch}" for batch in offsets] + [f"commits/{batch}" for batch in commits]
    for name in names:
        (tmp_path / "p" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "p" / name).write_text("" if name in torn else "v1\n{}")
    (tmp_path / "p" / "metadata").write_text('{"id": "a query"}')
    (tmp_path / "p" / "decisions.json").write_text("{}")
    return checkpoint


def entries(tmp_path):
    return sorted(
        str(path.relative_to(tmp_path / "p")) for path in (tmp_path / "p").glob("*/[0-9]*")
    )


@pytest.mark.parametrize(
    ("offsets", "commits", "torn", "left"),
    [
        # Spark reads the plan before the last one, too.
        (3, 2, ["offsets/1"], ["commits/0", "offsets/0"]),
        (3, 3, ["offsets/1"], ["commits/0", "offsets/0"]),
        # A plan that goes takes its batch's end along: then the end before it is the last one.
        (4, 4, ["offsets/3", "commits/2"], ["commits/0", "commits/1", *map("offsets/{}".format, range(3))]),
    ],
)  # fmt: skip
def test_what_rests_on_a_torn_entry_goes_with_it(tmp_path, offsets, commits, torn, left):
    checkpoint = logged(tmp_path, range(offsets), range(commits), torn)
    checkpoint.mend()
    assert entries(tmp_path) == left
    assert checkpoint.mend() == []
    assert checkpoint.pin(IDENTITY) == IDENTITY


@pytest.mark.parametrize(
    ("torn", "first", "left"),
    [
        ("offsets", 101, None),
        ("offsets", 102, None),
        ("offsets", 103, 102),
        ("commits", 101, None),
        ("commits", 102, 102),
    ],
)
def test_a_log_that_has_nothing_left_to_go_on_from_stays_as_it_is(tmp_path, torn, first, left):
    """Else its batches would begin again with 0, without a state: all input is delivered anew."""
    batches = range(101, 111)
    names = [f"{torn}/{batch}" for batch in range(first, 111)]
    checkpoint = logged(tmp_path, batches, batches, names)
    (tmp_path / "p" / "state").mkdir()
    before = entries(tmp_path)
    if left is not None:
        checkpoint.mend()
        assert checkpoint.planned() == left
        return
    with pytest.raises(SequencerError, match=r"no two batches left .* new checkpoint folder"):
        checkpoint.mend()
    assert entries(tmp_path) == before
    assert (tmp_path / "p" / "state").is_dir()


@pytest.mark.parametrize("torn", ["offsets/0", "commits/0"])
def test_a_state_that_rescale_brought_is_not_removed(tmp_path, torn):
    """Batch 0 of another checkpoint begins without state, and with the beginning of its input."""
    checkpoint = logged(tmp_path, range(1), range(1), [torn])
    (tmp_path / "p" / "state").mkdir()
    (tmp_path / "p" / "decisions.json").write_text('{"before": "the old query"}')
    with pytest.raises(SequencerError, match="no two batches left"):
        checkpoint.mend()
    assert entries(tmp_path) == ["commits/0", "offsets/0"]
    (tmp_path / "p" / "decisions.json").write_text("{}")
    checkpoint.mend()
    assert not (tmp_path / "p" / "state").exists()


def test_a_disk_has_the_identity_whatever_the_setting(tmp_path, monkeypatch):
    """Once in a checkpoint's life; all that is done later rests on it."""
    synced = []
    monkeypatch.setattr(files, "sync", lambda path: synced.append(str(path)))
    Checkpoint(str(tmp_path), "p", synced=False).pin(IDENTITY)
    file, folder = synced
    assert file.startswith(f"{tmp_path}/p/")
    assert folder == f"{tmp_path}/p"


def test_a_plan_that_is_lost_does_not_count_where_the_one_behind_it_goes(tmp_path):
    """Batch 3 was done, and its end is lost with its plan: it begins again."""
    checkpoint = logged(tmp_path, [0, 1, 2, 4], range(3))
    state = tmp_path / "p" / "state" / "0" / "0" / "5.zip"
    state.parent.mkdir(parents=True)
    state.write_text("")
    assert checkpoint.pin(IDENTITY) == IDENTITY
    assert checkpoint.mend() == ["offsets/4"]
    assert (checkpoint.planned(), checkpoint.done()) == (2, 2)
    assert not state.exists()


def test_the_state_of_a_batch_whose_end_is_torn_goes(tmp_path):
    checkpoint = logged(tmp_path, range(3), range(3), ["commits/2"])
    state = tmp_path / "p" / "state" / "0" / "0"
    state.mkdir(parents=True)
    for version in (2, 3):
        (state / f"{version}.zip").write_text("")
    checkpoint._looked_at_snapshots = True
    checkpoint.mend()
    assert [path.name for path in state.iterdir()] == ["2.zip"]


@given(st.data())
def test_as_much_is_left_as_spark_can_go_on_from(data):
    """By trying all that may be left."""
    planned = range(data.draw(st.integers(0, OFFSETS_MAX)))
    done = data.draw(st.sets(st.sampled_from(planned))) if planned else set()
    logs = [("offsets", batch) for batch in planned] + [("commits", batch) for batch in done]
    torn = data.draw(st.sets(st.sampled_from(logs))) if logs else set()

    def goes_on(plan, end):
        needed = {("offsets", batch) for batch in (plan, plan - 1) if batch >= 0}
        needed |= {("commits", end)} if end >= 0 else set()
        return end in (plan, plan - 1) and not needed & torn

    _, plan, end = max(
        (goes_on(plan, end), plan, end)
        for plan in (-1, *planned)
        for end in (-1, *done)
        if end <= plan
    )
    gone = torn_entries(planned, done, lambda log, batch: (log, batch) not in torn)
    assert len(gone) == len({*gone})
    assert {batch for log, batch in gone if log == "offsets"} == {*planned[plan + 1 :]}
    # The end of a batch whose plan goes, goes with it.
    kept = {batch for batch in done if ("commits", batch) not in gone and batch <= plan}
    assert max(kept, default=-1) == end


def test_a_batch_that_gives_its_number_away_is_planned_until_its_state_is_gone(
    tmp_path, monkeypatch
):
    """A start that ends in between finds it planned; else a later batch begins with its state."""
    checkpoint = logged(tmp_path, range(3), range(2))
    state = tmp_path / "p" / "state" / "0" / "0" / "3.zip"
    state.parent.mkdir(parents=True)
    state.write_text("")
    removed = []
    monkeypatch.setattr(checkpoint, "_remove_logged", removed.append)
    checkpoint.forget_planned()
    assert removed == ["state/0/0/3.zip", "offsets/2"]
