"""Figure 1: groups are added and removed, and the sequencing graph follows, step by step.

"Decentralized Message Ordering for Publish/Subscribe Systems", section 3.2. The figure's
*sequencer* is all atoms with the same common subscribers: it has one circle where three groups
share B and C. What is drawn are the graphs that `build` makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from sequencer.groups.network.graph import build, require
from sequencer.groups.network.overlaps import Membership, Pair

A: Membership = {"G0": "ABC", "G1": "BC", "G2": "ABD"}
B: Membership = {**A, "G3": "BCD"}
C: Membership = {**B, "G4": "BD"}
D: Membership = {group: members for group, members in C.items() if group != "G0"}
STEPS: tuple[tuple[str, Membership], ...] = (
    ("(a) G0, G1, G2", A),
    ("(b) G3 is added", B),
    ("(c) G4 is added", C),
    ("(d) G0 is removed", D),
)


@dataclass(frozen=True, slots=True)
class Sequencer:
    """Atoms with the same common subscribers (`members`), and the `groups` that they number."""

    name: str
    members: frozenset[str]
    groups: tuple[str, ...]
    atoms: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One part of the figure: `sequencers` in the order of passage, and each group's `paths`."""

    title: str
    groups: Membership
    sequencers: tuple[Sequencer, ...]
    paths: Mapping[str, tuple[str, ...]]

    def numbering(self, group: str) -> tuple[str, ...]:
        """The sequencers on a group's path that number it; the others only pass it on."""
        passed = {sequencer.name for sequencer in self.sequencers if group in sequencer.groups}
        return tuple(name for name in self.paths[group] if name in passed)


def steps() -> list[Step]:
    """All parts of the figure. A sequencer keeps its name from step to step, as in the paper."""
    names: dict[frozenset[str], str] = {}
    return [_step(title, groups, names) for title, groups in STEPS]


def _step(title: str, groups: Membership, names: dict[frozenset[str], str]) -> Step:
    graph = require(build(groups), groups)
    for pair in sorted(graph.atoms):
        names.setdefault(graph.atoms[pair], f"Q{len(names)}")
    atoms_at: dict[str, list[Pair]] = {}
    for pair in graph.order():
        atoms_at.setdefault(names[graph.atoms[pair]], []).append(pair)
    return Step(
        title,
        groups,
        tuple(
            Sequencer(
                name,
                graph.atoms[atoms[0]],
                tuple(sorted({group for pair in atoms for group in pair})),
                tuple(atoms),
            )
            for name, atoms in atoms_at.items()
        ),
        {
            group: tuple(name for name, _ in groupby(names[graph.atoms[pair]] for pair in path))
            for group, path in sorted(graph.paths.items())
        },
    )
