"""What the benchmarks reckon; the measuring itself is `make bench`."""

import importlib
import statistics
import sys
from pathlib import Path

import pytest


@pytest.fixture
def bench(monkeypatch):
    """The scripts as modules."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "bench"))
    yield importlib.import_module
    for name in ("harness", "groups", "multicast"):
        sys.modules.pop(name, None)


class Watch:
    """CPU that grows by a second of a core in a second."""

    def spent(self, begin_ms, end_ms):
        return {"jvm": (end_ms - begin_ms) / 1000}


def test_rates_are_of_the_second_half(bench):
    batches = [
        (9, ms, {}, done, 0, at)
        for ms, done, at in ((900, 10, 0), (500, 20, 900), (100, 50, 1400), (100, 100, 1500))
    ]
    rate, cpu = bench("harness").warm(batches, Watch())
    assert rate == 80 / 0.2
    assert cpu == pytest.approx(0.2 / 80 * 1e6)


def test_rates_after_the_first_quarter(bench):
    batches = [
        (25, ms, {}, done, done, at)
        for ms, done, at in ((900, 20, 0), (500, 40, 900), (100, 60, 1400), (100, 100, 1500))
    ]
    found = bench("harness").rates(batches, Watch())
    assert found["read"] == 75 / 0.7
    assert found["written"] == 80 / 0.7
    assert found["cpu_us"]["jvm"] == pytest.approx(0.7 / 75 * 1e6)


def test_trips_of_groups(bench):
    apart = {"G0": ["a"], "G1": ["b"]}
    assert max(bench("groups").hops(apart, 4)) <= 1
    shared = {"G0": ["a", "b", "c"], "G1": ["b", "c", "d"], "G2": ["c", "d", "a"]}
    found = bench("groups").hops(shared, 4)
    assert len(found) == 9
    assert 0 <= statistics.median(found) <= max(found) <= 3


def test_multicasts_name_distinct_peers(bench):
    import numpy as np

    ((name, value),) = bench("multicast").receivers(np.random.default_rng(1), 50)
    assert name == "to"
    assert len(set(value.split(b","))) == 50
