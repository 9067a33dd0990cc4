"""Until when a reader has everything, by the marks that it has read."""

from streaming.clients.progress import Reached


def mark(output_end, read_until_ms, oldest_held_ms=None):
    return {
        "output_end": output_end,
        "read_until_ms": read_until_ms,
        "caught_up_ms": None,
        "oldest_held_ms": oldest_held_ms,
    }


def reached(*marks):
    found = Reached()
    for each in marks:
        found.note(each)
    return found


def test_a_mark_counts_once_its_reader_is_there():
    found = reached(mark(10, 100), mark(20, 200), mark(20, 300, oldest_held_ms=250))
    assert [found.at(position) for position in (9, 10, 19, 20, 25)] == [None, 100, 100, 250, 250]


def test_an_output_that_is_made_anew_is_complete_by_its_own_marks():
    """Marks of the topic that was deleted, or was the output before, are beyond its end."""
    found = reached(mark(500, 100), mark(700, 200), mark(0, 300), mark(20, 400))
    assert [found.at(position) for position in (0, 19, 20)] == [300, 300, 400]
