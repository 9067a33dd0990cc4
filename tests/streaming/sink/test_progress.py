"""The text of a partition's progress."""

import pytest

from streaming.sink.progress import BatchProgress, Part

PARTS = (
    None,
    Part(),
    Part(whole=0b1011, cut={2: (12, 0), 40: (1, 2**32 - 1)}, total=10**9, forgotten=True),
)


@pytest.mark.parametrize("part", PARTS)
def test_it_comes_back(part):
    progress = BatchProgress(42, "0b7c-41d2", "5f0e.77c0", part)
    assert BatchProgress.from_text(42, progress.to_text()) == progress


@pytest.mark.parametrize("text", ["", "0b7c-41d2", "a b"])
def test_what_is_no_progress(text):
    assert BatchProgress.from_text(3, text) is None


def test_none_was_committed():
    assert BatchProgress.from_text(-1, "a b all") is None
