"""The best cuts of a line against all cuts there are."""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
import pytest

from sequencer.groups.network.bags import TASTES, arranged
from sequencer.groups.network.cuts import SLACK, best_cuts, hops


def some_line(rng):
    groups = rng.randint(2, 5)
    pairs = list(combinations(range(groups), 2))
    chosen = rng.sample(pairs, rng.randint(1, min(len(pairs), 8)))
    weights = [rng.choice([0, 0.1, 1, 1, 3]) for _ in range(groups)]
    return np.array(chosen), np.array(weights, dtype=float)


def load_of(part, weights):
    return float(sum(weights[group] for group in {group for pair in part for group in pair}))


def stretches(line, at):
    return [line[a:b].tolist() for a, b in zip((0, *at), (*at, len(line)), strict=True)]


def naive_hops(parts, groups):
    inside = [{group for pair in part for group in pair} for part in parts]
    on = [[at for at, some in enumerate(inside) if group in some] for group in range(groups)]
    return [places[-1] - places[0] if places else 0 for places in on]


def every_cut(line, weights):
    """(the largest load, hops of all messages, nodes) of each way to cut."""
    for count in range(len(line)):
        for at in combinations(range(1, len(line)), count):
            parts = stretches(line, at)
            passed = float(np.dot(naive_hops(parts, len(weights)), weights))
            yield max(load_of(part, weights) for part in parts), passed, count + 1


def judged(line, weights, cuts):
    parts = stretches(line, cuts.at.tolist())
    passed = naive_hops(parts, len(weights))
    assert hops(line, cuts, len(weights)).tolist() == passed
    return max(load_of(p, weights) for p in parts), float(np.dot(passed, weights)), len(parts)


@pytest.mark.parametrize("seed", range(150))
def test_no_other_cut_has_fewer_hops_within_the_limit(seed):
    rng = random.Random(seed)
    line, weights = some_line(rng)
    least = max(load_of([pair], weights) for pair in line.tolist())
    limit = max(least, rng.uniform(0, weights.sum()))
    load, passed, nodes = judged(line, weights, best_cuts(line, weights, limit))
    assert load <= limit * (1 + 1e-9)
    allowed = [(h, n) for some, h, n in every_cut(line, weights) if some <= limit * (1 + 1e-9)]
    best = min(h for h, _ in allowed)
    assert passed == pytest.approx(best, abs=1e-6)
    assert nodes == min(n for h, n in allowed if h == pytest.approx(best, abs=1e-9))


@pytest.mark.parametrize("seed", range(150))
def test_never_more_nodes_than_there_are_and_the_load_is_even_then(seed):
    rng = random.Random(seed)
    line, weights = some_line(rng)
    nodes_max = rng.randint(1, 4)
    limit = max(load_of([pair], weights) for pair in line.tolist())
    cuts = best_cuts(line, weights, limit, nodes_max)
    load, _, nodes = judged(line, weights, cuts)
    assert nodes <= nodes_max
    fitting = min(some for some, _, n in every_cut(line, weights) if n <= nodes_max)
    if fitting <= limit * (1 + 1e-10):
        assert load <= limit * (1 + 1e-9)
    else:
        # The bisection ends a thousandth part of all messages above the least.
        assert load <= SLACK * (fitting + weights.sum() / 1000) + 1e-9


@pytest.mark.parametrize("seed", range(80))
@pytest.mark.parametrize("taste", TASTES)
def test_bags_have_every_atom_once_and_keep_the_limit_in_few_stretches(seed, taste):
    rng = random.Random(seed)
    line, weights = some_line(rng)
    pairs = np.sort(line[np.lexsort((line[:, 1], line[:, 0]))], axis=1)
    limit = max(load_of([pair], weights) for pair in line.tolist())
    found = arranged(pairs, weights, limit, taste)
    assert sorted(found.tolist()) == sorted(pairs.tolist())
    whole = arranged(pairs, weights, float(weights.sum()), taste)
    if in_one_part(pairs.tolist()):
        assert len(best_cuts(whole, weights, float(weights.sum())).at) == 0


def in_one_part(pairs):
    seen = set(pairs[0])
    for _ in pairs:
        for pair in pairs:
            if seen & set(pair):
                seen |= set(pair)
    return all(set(pair) <= seen for pair in pairs)
