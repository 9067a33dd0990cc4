"""Advice from counted histograms: what a gap time or buffer would have given up."""

import numpy as np
import pytest

from streaming.arrow.histograms import BOUNDS, DISPLACED, LATE_MS, counted, quantile
from streaming.arrow.totals import Totals
from streaming.cli.advise import _table
from streaming.replay.advice import Choice, advise


def totals(late_ms, displaced, in_order=0, late=0):
    found = Totals(rejected={"late": late} if late else {})
    found.measure(LATE_MS, counted(LATE_MS, np.array(late_ms), in_order))
    found.measure(DISPLACED, counted(DISPLACED, np.array(displaced), in_order))
    return found


def test_the_shortest_time_and_smallest_buffer_below_the_share():
    late_ms, displaced = [0, 150, 2_000, 2_001], [1, 1, 3, 40]
    given = totals(late_ms, displaced, in_order=996)
    advice = advise(given, 0.0011)
    assert (advice.messages, advice.out_of_order) == (1000, 4)
    assert advice.after_best == Choice(2_000, 0.001)
    assert advice.labels_best == Choice(5, 0.001)
    assert advise(given, 0.001).after_best == Choice(3_000, 0.0), (
        "fewer than the share, not as many"
    )
    for choice in advice.after_ms:
        assert choice.share == pytest.approx(sum(each > choice.value for each in late_ms) / 1000)
    for choice in advice.labels:
        assert choice.share == pytest.approx(sum(each > choice.value for each in displaced) / 1000)


def test_what_came_too_late_is_later_than_any_time():
    advice = advise(totals([500], [1], in_order=98, late=1), 0.005)
    assert advice.after_best is None
    assert advice.late == 1
    assert min(each.share for each in advice.after_ms) == pytest.approx(0.01)
    assert advise(totals([500], [1], in_order=98, late=1), 0.02).after_best == Choice(500, 0.01)


def test_nothing_measured():
    advice = advise(Totals(), 0.001)
    assert advice.messages == 0


def test_shards_add_up():
    whole = Totals.sum([totals([100], [2]), totals([100_000_000], [3], in_order=2), Totals()])
    assert whole.histograms[LATE_MS][-1] == 100_000_100
    assert sum(whole.histograms[LATE_MS][:-1]) == 4
    assert Totals.from_json(whole.to_json()) == whole


def test_quantiles_are_bounds():
    counts = counted(LATE_MS, np.array([0, 90, 150, 99_999_999]))
    assert quantile(LATE_MS, counts, 0.5) == 100
    assert quantile(LATE_MS, counts, 0.75) == 200
    assert quantile(LATE_MS, counts, 1.0) is None
    assert quantile(LATE_MS, [], 0.5) == 0
    assert all(list(bounds) == sorted(set(bounds)) for bounds in BOUNDS.values())


def test_of_settings_that_give_up_as_many_the_shortest_is_shown(capsys):
    shares = [
        ("100 ms", 0.5),
        ("200 ms", 0.5),
        ("500 ms", 0.1),
        *((f"{n} s", 0.0) for n in range(30)),
    ]
    _table(shares)
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert shown == [
        ["100", "ms", "50.0000%"],
        ["500", "ms", "10.0000%"],
        ["0", "s", "0.0000%"],
    ]
