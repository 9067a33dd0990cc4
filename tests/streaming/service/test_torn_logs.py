"""What a start leaves of Spark's logs when a power cut tore entries that were not synced."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.errors import SequencerError
from streaming.service.checkpoint import Checkpoint, Identity
from streaming.spark.spark_files import torn_entries

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
