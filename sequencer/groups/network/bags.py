"""An order of atoms in which few neighbouring ones concern many pairs of few groups.

A *bag* is a set of groups that a node can order within the limit of load: it takes all atoms of
pairs in it that no earlier bag has. Bags stand on a line one after the other, so a group's path
goes from its first bag to its last, and what counts is how soon a group is done once it has begun.
Hence each bag starts with the group that has the fewest atoms left, those that have begun first,
and is filled with the groups that have most atoms with the bag, those of the first group before
all: small groups begin and end in one bag or two, and only large ones go on along the line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sequencer.groups.network.cuts import Floats, Ints

Bools = NDArray[np.bool_]

_NEVER = np.inf


@dataclass(frozen=True, slots=True)
class Taste:
    """What makes a group welcome in a bag, in atoms.

    `finished`: it has no atom left then; `begun`: it is on its way already; `left`: for each of
    its atoms left (against it). `first`: for an atom with the bag's first group.
    """

    finished: float
    begun: float
    left: float
    first: float


# Of 80 in a grid, these four together come within 3 % (in the mean) of the hops of the best one.
TASTES = (
    Taste(finished=1, begun=1, left=0.03, first=100),
    Taste(finished=1, begun=3, left=0.03, first=100),
    Taste(finished=3, begun=0.5, left=0.1, first=100),
    Taste(finished=1, begun=1.5, left=0.03, first=0),
)


def arranged(pairs: Ints, weights: Floats, limit: float, taste: Taste) -> Ints:
    """The rows of `pairs`, shape (atoms, 2), in the order of bags; ties go by number.

    The groups are 0 ... len(weights) - 1. Time: the sum of the groups in all bags times the number
    of groups; memory: the square of that number, in bytes.
    """
    groups = len(weights)
    open_pairs = np.zeros((groups, groups), dtype=np.bool_)
    open_pairs[pairs[:, 0], pairs[:, 1]] = open_pairs[pairs[:, 1], pairs[:, 0]] = True
    left = open_pairs.sum(axis=1).astype(np.float64)
    begun = np.zeros(groups, dtype=np.bool_)
    bags: list[Ints] = []
    while left.any():
        # A group that has begun comes before all that have not.
        waiting = np.where(left > 0, left + np.where(begun, 0, groups), _NEVER)
        bag = _filled(int(np.argmin(waiting)), open_pairs, left, begun, weights, limit, taste)
        within = open_pairs[np.ix_(bag, bag)]
        low, high = np.nonzero(np.triu(within))
        atoms = np.column_stack((bag[low], bag[high]))
        open_pairs[atoms[:, 0], atoms[:, 1]] = open_pairs[atoms[:, 1], atoms[:, 0]] = False
        left[bag] -= within.sum(axis=1)
        bags.append(_inside(atoms, begun, left))
        begun[bag] = True
    return np.concatenate(bags) if bags else np.zeros((0, 2), dtype=np.int64)


def _filled(
    first: int,
    open_pairs: Bools,
    left: Floats,
    begun: Bools,
    weights: Floats,
    limit: float,
    taste: Taste,
) -> Ints:
    """The groups of a bag, sorted."""
    most = limit * (1 + 1e-10)
    gained = open_pairs[first].astype(np.float64)
    liking = taste.begun * begun - taste.left * left + taste.first * gained
    free = np.ones(len(left), dtype=np.bool_)
    free[first] = False
    load = float(weights[first])
    bag = [first]
    while True:
        fitting = np.flatnonzero(free & (gained > 0) & (weights <= most - load))
        if not len(fitting):
            return np.sort(np.array(bag, dtype=np.int64))
        gain = gained[fitting]
        score = gain + taste.finished * (gain >= left[fitting]) + liking[fitting]
        chosen = int(fitting[np.argmax(score)])
        bag.append(chosen)
        free[chosen] = False
        load += float(weights[chosen])
        gained += open_pairs[chosen]


def _inside(atoms: Ints, begun: Bools, left: Floats) -> Ints:
    """The atoms of a bag, those of groups that end here before those of groups that go on."""
    later = (left > 0).astype(np.int64) - begun.astype(np.int64)
    return np.asarray(atoms[np.argsort(later[atoms].sum(axis=1), kind="stable")], dtype=np.int64)
