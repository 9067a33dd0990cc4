"""All groups at once: which atoms they have, on which nodes, with which load.

The service lays out connected groups apart from all others (routes.py), on the same nodes. Here
these parts are put side by side, for people and programs that want to see the whole.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sequencer.groups.network.graph import Graph
from sequencer.groups.network.overlaps import Pair, components
from sequencer.groups.network.placement import Load, Overload, Placement, check_load, loads
from sequencer.groups.network.rates import busiest, checked_rates
from sequencer.groups.network.routes import arranged


@dataclass(frozen=True, slots=True)
class Overview:
    """``groups`` and their members are sorted, ``messages`` are per group, ``counted`` or 1 each.

    ``nodes`` is how many nodes there may be; ``loads`` are of those that host atoms, in the unit
    of ``messages``, and ``overloads`` those that order more than ``limit``: the messages of
    ``busiest``, the receiver that gets most ("" if there is none).
    """

    groups: Mapping[str, tuple[str, ...]]
    messages: Mapping[str, float]
    counted: bool
    nodes: int
    graph: Graph
    placed: Placement
    loads: tuple[Load, ...]
    overloads: tuple[Overload, ...]
    busiest: str
    limit: float

    @property
    def ingress_only(self) -> tuple[str, ...]:
        """The groups without an atom: their ingress gives all numbers that they need."""
        return tuple(name for name in self.groups if not self.graph.paths[name])

    @property
    def subscribers(self) -> int:
        """How many subscribers there are."""
        return len({member for members in self.groups.values() for member in members})


def overview(
    groups: Mapping[str, Collection[str]], nodes: int, messages: Mapping[str, int] | None = None
) -> Overview:
    """The graph of a membership as the service lays it out on at most ``nodes`` nodes.

    ``messages`` are how many each group had; one that is missing there had none. They change the
    loads and nothing else: the service places atoms before it knows them. ValueError for counts
    below 0, or no node.
    """
    members = {name: tuple(sorted(set(groups[name]))) for name in sorted(groups)}
    counts = None if messages is None else {name: messages.get(name, 0) for name in members}
    rates = checked_rates(members, counts)
    atoms: dict[Pair, frozenset[str]] = {}
    paths: dict[str, Sequence[Pair]] = {}
    placed: dict[Pair, int] = {}
    for turn, part in enumerate(components(members)):
        graph, nodes_of = arranged({name: members[name] for name in part}, nodes, turn)
        atoms |= graph.atoms
        paths |= graph.paths
        placed |= nodes_of
    whole = Graph(atoms, paths)
    receiver, limit = busiest(members, rates)
    return Overview(
        members,
        dict(rates),
        messages is not None,
        nodes,
        whole,
        placed,
        loads(whole, members, placed, rates),
        check_load(whole, members, placed, rates),
        receiver,
        limit,
    )
