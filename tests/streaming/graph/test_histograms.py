"""Histograms of disorder, as text and as a picture."""

from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from streaming.arrow.histograms import BOUNDS, DISPLACED, LATE_MS
from streaming.graph.histograms import as_svg, as_text, histogram


def counts_of(kind, **filled):
    counts = [0] * (len(BOUNDS[kind]) + 2)
    for bound, count in filled.items():
        counts[BOUNDS[kind].index(int(bound[1:]))] = count
    return {kind: counts}


def test_bars_and_todays_setting():
    found = histogram(LATE_MS, counts_of(LATE_MS, b0=99, b200=4, b1000=8, b2000=1), 1000)
    assert as_text(found) == [
        f"   200 ms  {'█' * 20} 4",
        "   500 ms   0",
        f"      1 s  {'█' * 40} 8  ← today's setting",
        f"      2 s  {'█' * 5} 1",
    ]


def test_a_setting_beyond_all_is_shown_too():
    lines = as_text(histogram(DISPLACED, counts_of(DISPLACED, b1=2), 10_000))
    assert [each.split()[0] for each in lines] == ["1", "10k"]
    assert lines[1].endswith("0  ← today's setting")


@given(st.integers(1, 100_000_000))
def test_the_mark_is_the_bucket_of_the_setting(setting):
    found = histogram(LATE_MS, {}, setting)
    bounds = BOUNDS[LATE_MS][1:]
    below = bounds[found.marked - 1] if found.marked else 0
    above = bounds[found.marked] if found.marked < len(bounds) else float("inf")
    assert below < setting <= above


def test_nothing_measured_is_no_text_and_an_empty_picture():
    empty = histogram(LATE_MS, {})
    assert (as_text(empty), empty.marked) == ([], None)
    root = ET.fromstring(as_svg([empty, empty]))  # noqa: S314  (our own)
    assert len(root.findall("{http://www.w3.org/2000/svg}svg")) == 2
