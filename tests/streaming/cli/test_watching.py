"""The line of history below `sequencer status --watch`."""

from hypothesis import given
from hypothesis import strategies as st

from streaming.cli.watching import BLOCKS, COLUMNS, History, bars


def look(**pipelines):
    return {name: {"delivered": out, "held": held} for name, (out, held) in pipelines.items()}


def test_rates_and_what_is_held():
    history = History()
    history.note(10.0, look(trades=(100, 0), bus=(5, 0)))
    assert history.lines() == [], "one look has no rate"
    history.note(12.0, look(trades=(100, 4), bus=(5, 0)))
    history.note(14.0, look(trades=(300, 8), bus=(5, 0)))
    assert history.lines() == [
        "trades  out ▁█ 100/s  held ▅█ 8",
        "bus     out ▁▁ 0/s  held ▁▁ 0",
    ]


def test_a_line_has_an_end():
    history = History()
    for at in range(3 * COLUMNS):
        history.note(float(at), look(p=(at, at)))
    (line,) = history.lines()
    assert line.count("█") <= 2 * COLUMNS
    assert len(line) < 2 * COLUMNS + 40


@given(st.lists(st.integers(0, 10**9), min_size=1))
def test_only_nothing_is_empty_and_only_the_highest_is_full(values):
    drawn = bars(values)
    assert len(drawn) == len(values)
    for value, block in zip(values, drawn, strict=True):
        assert (block == BLOCKS[0]) == (value == 0)
        if value == max(values) > 0:
            assert block == BLOCKS[-1]
