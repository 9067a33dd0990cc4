"""Lines of atoms, and paths that are stretches of a line.

A path of a group may pass thousands of atoms that are not its own. A `Run` names its first and last
place only, so all paths together take no more memory than the line.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from sequencer.groups.network.overlaps import Pair


class Line:
    """Atoms in one order; each stands on it once. Not to be changed."""

    __slots__ = ("_own", "_place", "atoms")

    def __init__(self, atoms: Iterable[Pair]) -> None:
        self.atoms = tuple(atoms)
        self._place = {pair: at for at, pair in enumerate(self.atoms)}
        if len(self._place) < len(self.atoms):
            twice = next(p for at, p in enumerate(self.atoms) if self._place[p] != at)
            raise ValueError(f"{'+'.join(twice)} is on the line twice: no line was made")
        self._own: dict[str, list[int]] = {}
        for at, pair in enumerate(self.atoms):
            for group in pair:
                self._own.setdefault(group, []).append(at)

    def place(self, pair: object) -> int:
        """The place of an atom, from 0; -1 if it is not on the line."""
        return self._place.get(pair, -1)  # type: ignore[call-overload,no-any-return]

    def own(self, group: str) -> Sequence[int]:
        """The places of a group's atoms, rising."""
        return self._own.get(group, ())

    def run(self, group: str) -> Run:
        """The stretch from a group's first atom to its last; empty if it has none."""
        places = self.own(group)
        return Run(self, places[0], places[-1] + 1) if places else Run(self, 0, 0)

    def runs(self) -> Iterator[tuple[str, Run]]:
        """The stretch of every group that has an atom on the line, by name."""
        return ((group, self.run(group)) for group in sorted(self._own))


class Run(Sequence[Pair]):
    """The atoms `start` ... `stop` - 1 of a line; equal to any sequence of the same atoms."""

    __slots__ = ("line", "start", "stop")

    def __init__(self, line: Line, start: int, stop: int) -> None:
        self.line = line
        self.start = start
        self.stop = stop

    def __len__(self) -> int:
        return self.stop - self.start

    def __iter__(self) -> Iterator[Pair]:
        return iter(self.line.atoms[self.start : self.stop])

    @overload
    def __getitem__(self, at: int) -> Pair: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Pair, ...]: ...
    def __getitem__(self, at: int | slice) -> Pair | tuple[Pair, ...]:
        if isinstance(at, slice):
            return self.line.atoms[self.start : self.stop][at]
        if not -len(self) <= at < len(self):
            raise IndexError(f"a path of {len(self)} atoms has none at {at}")
        return self.line.atoms[(self.start if at >= 0 else self.stop) + at]

    def __contains__(self, pair: object) -> bool:
        return self.start <= self.line.place(pair) < self.stop

    def index(self, pair: Pair, start: int = 0, stop: int | None = None) -> int:
        """Where an atom is on the path, from 0; ValueError if it is not there."""
        at = self.line.place(pair) - self.start
        from_, to, _ = slice(start, stop).indices(len(self))
        if not (0 <= at < len(self) and from_ <= at < to):
            raise ValueError(f"{'+'.join(pair)} is not on the path")
        return at

    def stamping(self, group: str) -> tuple[Pair, ...]:
        """The atoms of a group on this path."""
        places = self.line.own(group)
        within = places[bisect_left(places, self.start) : bisect_left(places, self.stop)]
        return tuple(self.line.atoms[at] for at in within)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Run({tuple(self)!r})"
