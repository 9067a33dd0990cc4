"""Arrivals and deliveries side by side."""

from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from streaming.graph import charts
from streaming.graph.lanes import Arrival, Delivery, draw, matched


def test_the_first_copy_that_was_not_rejected_is_the_one_that_was_delivered():
    arrivals = [("i@0", "1", ""), ("i@1", "0", "0"), ("i@2", "1", "0"), ("i@3", "3", "")]
    fates, rows = matched(arrivals, [("", "0", ""), ("", "1", "")], {"i@2": "duplicate"})
    assert fates == ["delivered", "delivered", "rejected", "held"]
    assert rows == [1, 0]


def test_an_origin_says_which_record_it_was():
    arrivals = [("i@0", "1", ""), ("i@1", "1", "")]
    fates, rows = matched(arrivals, [("i@1", "1", ""), ("i@9", "0", "")], {})
    assert fates == ["held", "delivered"]
    assert rows == [1, None]


def test_commands_and_dropped_copies_are_not_held():
    arrivals = [("i@0", "0", ""), ("i@1", "0", ""), ("i@2", "", ""), ("i@3", "2", "")]
    arrivals += [("i@4", "2", ""), ("i@5", "2", "1")]
    for origin in ("", "i@0"):
        out = [(origin, "0", "")]
        fates, rows = matched(arrivals, out, {}, commands={"i@2"}, drops=True)
        assert fates == ["delivered", "dropped", "command", "held", "dropped", "held"]
        assert rows == [0]


@given(st.permutations(range(12)), st.sets(st.integers(0, 11)))
def test_every_arrival_has_one_fate(order, rejected):
    arrivals = [(f"i@{at}", str(label), "") for at, label in enumerate(order)]
    rejects = {f"i@{at}": "late" for at in rejected}
    out = sorted(int(label) for place, label, _ in arrivals if place not in rejects)
    fates, rows = matched(arrivals, [("", str(label), "") for label in out], rejects)
    assert [arrivals[row][1] for row in rows] == [str(label) for label in out]
    assert fates.count("rejected") == len(rejected)
    assert fates.count("delivered") == len(out)


def test_what_comes_from_outside_stays_text():
    bad = "<script>\0\x1b[1m"
    text = draw([Arrival(bad, bad, "", 0, "held")], [Delivery(bad, bad, bad, 0)], bad)
    root = ET.fromstring(text)  # noqa: S314  (our own)
    assert not [each for each in root.iter() if "script" in each.tag]


def test_charts_of_nothing_and_of_much():
    assert "polyline" not in charts.line([], "x")
    assert charts.line([0.0] * 10_000, "x").count(",") <= charts.POINTS_MAX + 2
    assert 'class="marked"' in charts.bars(["a", "b"], [0, 3], 0, "x")
