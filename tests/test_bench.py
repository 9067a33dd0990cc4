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


def test_rates_are_of_the_second_half(bench):
    batches = [(9, ms, {}, done, 0) for ms, done in ((900, 10), (500, 20), (100, 50), (100, 100))]
    assert bench("harness").warm_rate(batches) == 80 / 0.2


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
