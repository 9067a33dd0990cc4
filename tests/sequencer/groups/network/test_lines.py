"""A run of a line against the tuple of its atoms."""

from __future__ import annotations

import pickle
import random
from itertools import combinations

import pytest

from sequencer.groups.network.lines import Line, Run

PAIRS = list(combinations(["G0", "G1", "G2", "G3"], 2))


@pytest.mark.parametrize("seed", range(100))
def test_a_run_is_the_sequence_of_its_atoms(seed):
    rng = random.Random(seed)
    line = Line(rng.sample(PAIRS, rng.randint(0, len(PAIRS))))
    start = rng.randint(0, len(line.atoms))
    run = Run(line, start, rng.randint(start, len(line.atoms)))
    plain = line.atoms[run.start : run.stop]
    assert run == plain
    assert plain == tuple(run)
    assert hash(run) == hash(plain)
    assert len(run) == len(plain)
    for at in range(-len(plain), len(plain)):
        assert run[at] == plain[at]
    for at in (-len(plain) - 1, len(plain)):
        with pytest.raises(IndexError):
            run[at]
    assert run[::-1] == plain[::-1]
    assert run[1:] == plain[1:]
    for pair in [*PAIRS, ("G8", "G9")]:
        assert (pair in run) == (pair in plain)
        for low, high in ((0, None), (1, None), (0, -1), (-2, 3)):
            if pair in plain[low:high]:
                assert run.index(pair, low, high) == plain.index(pair)
            else:
                with pytest.raises(ValueError, match="not on the path"):
                    run.index(pair, low, high)
    for group in ("G0", "G3", "G9"):
        assert run.stamping(group) == tuple(pair for pair in plain if group in pair)
    again = pickle.loads(pickle.dumps(run))
    assert again == run
    assert run != [*plain, ("G8", "G9")]


def test_the_run_of_a_group_is_from_its_first_atom_to_its_last():
    line = Line([("A", "B"), ("B", "C"), ("A", "D"), ("C", "D")])
    assert dict(line.runs()) == {
        "A": line.atoms[:3],
        "B": line.atoms[:2],
        "C": line.atoms[1:],
        "D": line.atoms[2:],
    }
    assert line.run("E") == ()


def test_an_atom_stands_on_a_line_once():
    with pytest.raises(ValueError, match="A\\+B is on the line twice"):
        Line([("A", "B"), ("B", "C"), ("A", "B")])
