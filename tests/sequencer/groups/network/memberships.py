"""Memberships: small random ones, a ring, and such as the paper's (Zipf, equal chances)."""

from __future__ import annotations

import random

RING = {"G0": {"A", "C"}, "G1": {"A", "B"}, "G2": {"B", "C"}}


def some_groups(seed, groups=6, members=6):
    rng = random.Random(seed)
    share = rng.choice([0.2, 0.3, 0.5])
    return {
        f"G{number}": frozenset(name for name in "ABCDEFGH"[:members] if rng.random() < share)
        for number in range(rng.randint(0, groups))
    }


def zipf(groups, subscribers, seed):
    """The group of rank r has 1/r of all subscribers (2 or more), drawn uniformly."""
    rng = random.Random(seed)
    names = [f"s{number:05}" for number in range(subscribers)]
    return {
        f"G{rank:04}": rng.sample(names, max(2, round(subscribers / rank)))
        for rank in range(1, groups + 1)
    }


def clustered(groups, subscribers, seed, clusters=50):
    """As `zipf`, with seven of ten members from neighbouring clusters of subscribers."""
    rng = random.Random(seed)
    names = [f"s{number:05}" for number in range(subscribers)]
    found = {}
    for rank in range(1, groups + 1):
        size = max(2, round(subscribers / rank))
        near = size * 7 // 10
        first = rng.randrange(clusters) * (subscribers // clusters)
        members = {names[(first + at) % subscribers] for at in range(near)}
        while len(members) < size:
            members.add(rng.choice(names))
        found[f"G{rank:04}"] = sorted(members)
    return found


def occupied(groups, subscribers, share, seed):
    """Each subscriber is in each group with the same chance; groups may be empty."""
    rng = random.Random(seed)
    names = [f"s{number:03}" for number in range(subscribers)]
    return {
        f"G{number:02}": [name for name in names if rng.random() < share]
        for number in range(groups)
    }
