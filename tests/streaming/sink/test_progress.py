"""The text of a partition's progress."""

import pytest

from streaming.sink.progress import BatchProgress, Part, nothing_since

PARTS = (
    None,
    Part(),
    Part(whole=0b1011, cut={2: (12, 0), 40: (1, 2**32 - 1)}, total=10**9, forgotten=True),
)


@pytest.mark.parametrize("runs", [(0, 0, 0), (1, 0, 0), (0, 1, 2**41), (20, 21, 2**62)])
@pytest.mark.parametrize("part", PARTS)
def test_it_comes_back(part, runs):
    progress = BatchProgress(42, "0b7c-41d2", "5f0e.77c0", part, None, *runs)
    assert BatchProgress.from_text(42, progress.to_text()) == progress


@pytest.mark.parametrize("text", ["", "0b7c-41d2", "a b"])
def test_what_is_no_progress(text):
    assert BatchProgress.from_text(3, text) is None


def test_none_was_committed():
    assert BatchProgress.from_text(-1, "a b all") is None


def test_it_says_how_much_was_read_and_refused():
    progress = BatchProgress(3, "a", "b", read=1000, refusing_runs=2)
    assert progress.to_text() == "a b all-3e8+2>0"
    assert BatchProgress.from_text(3, progress.to_text()) == progress


def test_it_says_which_incarnations_there_may_be():
    progress = BatchProgress(3, "a", "b.c", newest_ms=1000)
    assert progress.to_text() == "a b.c.3e8 all"
    taken_back = BatchProgress.from_text(3, BatchProgress(3, "a", nothing_since(999)).to_text())
    before = BatchProgress.from_text(3, "a b.c all")  # written before it was kept
    assert [each.incarnations_ms for each in (progress, taken_back, before)] == [1000, 999, 0]
