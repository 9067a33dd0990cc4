"""Who is in which group: any changes, against plain sets."""

import random

import numpy as np
import pytest

from sequencer.groups.batch.circles import Circles


@pytest.mark.parametrize("seed", range(20))
def test_circles_and_partners_after_any_changes(seed):
    rng = random.Random(seed)
    names = [f"G{n}" for n in rng.sample(range(100), 8)]
    groups = {n: set(rng.sample(range(12), rng.randrange(1, 9))) for n in range(8)}
    circles = Circles.gathered(names, [(n, array(some)) for n, some in groups.items()], 12)
    for _ in range(30):
        number = rng.randrange(8)
        after = set(rng.sample(range(12), rng.randrange(9)))
        circles.leave(array(groups[number] - after), number)
        circles.enter(array(after - groups[number]), number)
        groups[number] = after
        for who in range(12):
            own = sorted((n for n in groups if who in groups[n]), key=names.__getitem__)
            assert circles.lists[circles.of[who]].tolist() == own
        for each, members in groups.items():
            if members:
                expected = [n for n in groups if n != each and len(members & groups[n]) > 1]
                assert circles.partners(each, array(members)).tolist() == expected
    fresh = Circles.gathered(names, [(n, array(some)) for n, some in groups.items()], 12)
    assert [circles.lists[at].tolist() for at in circles.of] == [
        fresh.lists[at].tolist() for at in fresh.of
    ]


def test_subscribers_in_the_same_groups_share_a_list():
    circles = Circles.gathered(["a", "b"], [(0, array({0, 1, 2})), (1, array({1, 2}))], 4)
    assert circles.of[1] == circles.of[2] != circles.of[0]
    assert circles.of[3] == 0
    circles.grow(6)
    circles.enter(array({5}), 0)
    assert circles.of[5] == circles.of[0]


def array(numbers):
    return np.array(sorted(numbers), np.int64)
