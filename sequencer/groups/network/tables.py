"""The directory as arrays: what a shard looks up for each message.

Lines and atoms of the live views are numbered densely, in the order of their own numbers; a dense
number is called a place here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from sequencer.groups.network.routes import Directory, RoutedView
from sequencer.ragged import Ints, Ragged


@dataclass(frozen=True, slots=True)
class Tables:
    """The lines and atoms of all live views, as one shard sees them.

    By line's place: ``line`` (its number), ``view``, ``group``, ``first_run``, ``targets`` (shards
    with members, ascending), ``members`` (places in ``subscribers``: the members in this shard).
    By run: ``run_shard``, ``run_atoms`` (atoms' places). By atom's place: ``atom`` (its number),
    ``here`` (whether a subscriber of this shard is in both groups), ``double`` (whether two or more
    subscribers anywhere are), ``over`` (whether the current groups have no such overlap),
    ``pair_lines`` (its lines' places).
    """

    shard: int
    line: Ints
    view: Ints
    group: tuple[str, ...]
    first_run: Ints
    run_shard: Ints
    run_atoms: Ragged
    targets: Ragged
    members: Ragged
    atom: Ints
    here: NDArray[np.bool_]
    double: NDArray[np.bool_]
    over: NDArray[np.bool_]
    pair_lines: Ints
    subscribers: tuple[str, ...]

    def places(self, lines: Ints) -> Ints:
        """The places of lines, by their numbers."""
        return np.searchsorted(self.line, lines).astype(np.int64)

    def runs(self, places: Ints) -> Ints:
        """Return how many runs the lines have."""
        return self.first_run[places + 1] - self.first_run[places]


def tables(directory: Directory, shard: int, home: Callable[[str], int]) -> Tables:
    """Compile the directory for a shard; ``home`` gives the shard of a subscriber."""
    views = [directory.views[number] for number in sorted(directory.views)]
    memberships = [members for view in views for members in view.groups.values()]
    everyone = sorted({member for members in memberships for member in members})
    homes = {subscriber: home(subscriber) for subscriber in everyone}
    local = tuple(subscriber for subscriber in everyone if homes[subscriber] == shard)
    place = {subscriber: at for at, subscriber in enumerate(local)}
    runs = [run for view in views for path in view.paths.values() for run in path]
    base = {view.number: at for view, at in zip(views, _bases(views), strict=True)}
    atoms = [
        [base[view.number] + atom for atom in run.atoms]
        for view in views
        for path in view.paths.values()
        for run in path
    ]
    paths = [path for view in views for path in view.paths.values()]
    own_overlaps, double_overlaps = _shared(views, place)
    return Tables(
        shard=shard,
        line=_ints(view.first_line + at for view in views for at in range(len(view.groups))),
        view=_ints(view.number for view in views for _ in view.groups),
        group=tuple(name for view in views for name in view.groups),
        first_run=np.concatenate(([0], np.cumsum(_ints(map(len, paths))))).astype(np.int64),
        run_shard=_ints(run.shard for run in runs),
        run_atoms=Ragged.of(atoms),
        targets=Ragged.of(sorted({homes[name] for name in members}) for members in memberships),
        members=Ragged.of(
            [place[name] for name in members if name in place] for members in memberships
        ),
        atom=_ints(view.first_atom + at for view in views for at in range(len(view.pairs))),
        here=own_overlaps,
        double=double_overlaps,
        over=np.array([_is_over(view, at, directory) for view, at in _pairs(views)], np.bool_),
        pair_lines=_pair_lines(views),
        subscribers=local,
    )


def present_overlaps(tables: Tables, directory: Directory) -> Ints:
    """The places of atoms that number double overlaps of the current groups."""
    here = zip(tables.group, tables.view.tolist(), strict=True)
    present = np.array([directory.view_of.get(name) == view for name, view in here], np.bool_)
    return np.flatnonzero(tables.double & present[tables.pair_lines].all(axis=1))


def hosted(tables: Tables) -> Ints:
    """The places of the atoms that number in this shard, rising."""
    return np.unique(tables.run_atoms.take(np.flatnonzero(tables.run_shard == tables.shard)).values)


def pair_names(tables: Tables, atoms: Ints) -> list[tuple[str, str]]:
    """The two groups of each atom, by the atoms' places."""
    pairs = tables.pair_lines[atoms].tolist()
    return [(tables.group[first], tables.group[second]) for first, second in pairs]


def _bases(views: list[RoutedView]) -> list[int]:
    return [0, *accumulate(len(view.pairs) for view in views)][: len(views)]


def _pairs(views: list[RoutedView]) -> Iterable[tuple[RoutedView, int]]:
    return ((view, at) for view in views for at in range(len(view.pairs)))


def _shared(
    views: list[RoutedView], place: Mapping[str, int]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """For each atom whether a subscriber in ``place`` is in both groups, and whether two are."""
    own: list[bool] = []
    double: list[bool] = []
    for view in views:
        sets = {name: frozenset(members) for name, members in view.groups.items()}
        local = {name: members & place.keys() for name, members in sets.items()}
        own += [not local[first].isdisjoint(local[second]) for first, second in view.pairs]
        double += [len(sets[first] & sets[second]) > 1 for first, second in view.pairs]
    return np.array(own, np.bool_), np.array(double, np.bool_)


def _is_over(view: RoutedView, at: int, directory: Directory) -> bool:
    """Return whether a view's double overlap is none of the groups as they are now.

    Not where both groups have gone on to other views: all that is left here was sent before.
    """
    names = view.pairs[at]
    views = {directory.view_of.get(name) for name in names}  # None: the group is no more
    if views == {view.number} or not views & {view.number, None}:
        return False
    one, other = (directory.groups.get(name, ()) for name in names)
    return len(set(one) & set(other)) < 2


def _pair_lines(views: list[RoutedView]) -> Ints:
    """For each atom the places of its two lines; shape (atoms, 2)."""
    pair_lines: list[tuple[int, int]] = []
    before = 0
    for view in views:
        at = {name: before + n for n, name in enumerate(view.groups)}
        pair_lines += [(at[first], at[second]) for first, second in view.pairs]
        before += len(view.groups)
    return np.array(pair_lines, dtype=np.int64).reshape(-1, 2)


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)
