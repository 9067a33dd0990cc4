"""A graph that is changed atom by atom as subscribers join and leave, beside one made anew.

"Decentralized Message Ordering for Publish/Subscribe Systems", section 6, leaves open "whether
sequencing networks perform well even when incrementally updated as groups and nodes join and
leave". Here atoms keep their nodes, and nodes their order on the line; an overlap that begins gets
its atom where messages pass the fewest nodes more, one that ends loses it::

    nodes      [AB AC] [BC CD] [DE]        a member of A joins E: AE begins
    A passes    1       .       .          in node 1, E passes two nodes more; in node 3, A does;
    E passes    .       .       3          a new node would be passed by all groups beside it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sequencer.groups.network.graph import Graph, require
from sequencer.groups.network.lines import Line
from sequencer.groups.network.nearness import Sites, near
from sequencer.groups.network.overlaps import Overlap, Pair, ordered_overlaps
from sequencer.groups.network.placement import node_paths
from sequencer.groups.network.rates import busiest as busiest_receiver
from sequencer.simulation.counts import Track
from sequencer.simulation.latency import settled
from sequencer.simulation.load import busiest, stretches
from sequencer.simulation.plan import Ground, assign, urgency
from sequencer.simulation.topology import Shape, transit_stub
from sequencer.simulation.workload import Groups, rates, zipf_groups

STEPS = (0, 10, 100, 1000)
"""After how many joins and leaves both graphs are measured."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One graph: means over the runs.

    `nodes`; `hops`: nodes that a message passes, the mean over all messages; `ordering`: messages
    that the busiest node numbers, as a share of what the busiest receiver gets (the paper's limit
    is 1), `passing`: those that it sees, likewise; `stretch`: latency stretch, nodes near their
    subscribers.
    """

    nodes: float
    hops: float
    ordering: float
    passing: float
    stretch: float


@dataclass(frozen=True, slots=True)
class Changed:
    """A number of groups after a number of changes; `moved`: atoms on another node, if made anew.

    `moved` is a share; `begun` and `ended` are atoms for one change, means.
    """

    groups: int
    changes: int
    runs: int
    kept: Measured
    anew: Measured
    begun: float
    ended: float
    moved: float


class KeptLine:
    """Nodes in the order of the line, each a set of atoms, changed overlap by overlap.

    Which atom of a node comes first changes neither hops nor load; they are sorted by pair.
    """

    def __init__(self, graph: Graph, nodes: Mapping[Pair, int]) -> None:
        self.nodes: list[set[Pair]] = []
        latest = None
        for pair in graph.order():
            if nodes[pair] != latest:
                self.nodes.append(set())
                latest = nodes[pair]
            self.nodes[-1].add(pair)

    def change(self, groups: Groups, overlaps: Sequence[Overlap]) -> tuple[int, int]:
        """Exchange the atoms for those of `overlaps`; return how many begin and how many end."""
        wanted = {overlap.pair for overlap in overlaps}
        ended = [pair for node in self.nodes for pair in node if pair not in wanted]
        for node in self.nodes:
            node.intersection_update(wanted)
        self.nodes = [node for node in self.nodes if node]
        begun = sorted(wanted.difference(*self.nodes))
        rate = rates(groups)
        _, limit = busiest_receiver(groups, rate)
        for pair in begun:
            self._add(pair, rate, limit)
        return len(begun), len(ended)

    def graph(self, groups: Groups, overlaps: Sequence[Overlap]) -> tuple[Graph, dict[Pair, int]]:
        """Return the graph, which nobody has checked yet, and the node of each atom."""
        line = Line(pair for node in self.nodes for pair in sorted(node))
        paths: dict[str, Sequence[Pair]] = {**dict.fromkeys(groups, ()), **dict(line.runs())}
        graph = Graph({each.pair: each.members for each in overlaps}, paths)
        return graph, {pair: at for at, node in enumerate(self.nodes) for pair in node}

    def _add(self, pair: Pair, rate: Mapping[str, float], limit: float) -> None:
        spans = self._spans()
        numbered = [{name for known in node for name in known} for node in self.nodes]
        old = [
            (self._longer(pair, at, spans, rate), 0, at)
            for at, names in enumerate(numbered)
            if sum(rate[name] for name in names.union(pair)) <= limit * (1 + 1e-9)
        ]
        new = [
            (self._longer(pair, at - 0.5, spans, rate) + self._across(at, spans, rate), 1, at)
            for at in range(len(self.nodes) + 1)
        ]
        _, is_new, at = min(old + new)
        if is_new:
            self.nodes.insert(at, {pair})
        else:
            self.nodes[at].add(pair)

    def _spans(self) -> dict[str, tuple[int, int]]:
        """The first and the last node of each group with an atom."""
        spans: dict[str, tuple[int, int]] = {}
        for at, node in enumerate(self.nodes):
            for pair in node:
                for name in pair:
                    spans[name] = (spans.get(name, (at, at))[0], at)
        return spans

    @staticmethod
    def _longer(
        pair: Pair, at: float, spans: Mapping[str, tuple[int, int]], rate: Mapping[str, float]
    ) -> float:
        """Nodes more that the messages of a pair of groups pass if its atom is at node `at`.

        A new node lies between two, so its own passage by groups beside it is one more.
        """
        more = 0.0
        for name in pair:
            first, last = spans.get(name, (at, at))
            beyond = max(first - at, at - last, 0)
            more += rate[name] * (np.ceil(beyond) if name in spans else 1)
        return more

    @staticmethod
    def _across(at: int, spans: Mapping[str, tuple[int, int]], rate: Mapping[str, float]) -> float:
        """Messages that pass a new node in front of node `at`."""
        return sum(rate[name] for name, (first, last) in spans.items() if first < at <= last)


def figure(
    track: Track[tuple[int, int]],
    seed: int,
    *,
    runs: int = 5,
    subscribers: int = 128,
    counts: Sequence[int] = (8, 16, 32, 64),
    steps: Sequence[int] = STEPS,
    shape: Shape | None = None,
) -> list[Changed]:
    """Joins and leaves in turns, beginning with groups after Zipf; ground as in latency.figure."""
    topology = transit_stub(np.random.default_rng([seed, 1]), shape)
    found: dict[tuple[int, int], list[Changed]] = {
        (count, step): [] for count in counts for step in steps
    }
    for count, run in track([(count, run) for count in counts for run in range(runs)]):
        rng = np.random.default_rng([seed, 8, count, run])
        where = settled(topology, rng, subscribers)
        groups = zipf_groups(rng, list(where.hosts), count)
        for each in _run(groups, where, rng, steps):
            found[count, each.changes].append(each)
    return [_means(results) for results in found.values()]


def _run(
    groups: Groups, where: Ground, rng: np.random.Generator, steps: Sequence[int]
) -> list[Changed]:
    graph, nodes, _ = assign(groups)
    kept = KeptLine(graph, nodes)
    begun = ended = 0
    results = []
    for change in range(max(steps) + 1):
        if change:
            groups = changed(groups, where.hosts, rng, join=change % 2 == 1)
            overlaps = ordered_overlaps(groups)
            more, fewer = kept.change(groups, overlaps)
            begun, ended = begun + more, ended + fewer
        if change in steps:
            overlaps = ordered_overlaps(groups)
            old, old_nodes = kept.graph(groups, overlaps)
            require(old, groups, overlaps)
            new, new_nodes, _ = assign(groups, overlaps)
            results.append(
                Changed(
                    len(groups),
                    change,
                    1,
                    _measured(groups, old, old_nodes, where),
                    _measured(groups, new, new_nodes, where),
                    begun / max(change, 1),
                    ended / max(change, 1),
                    _moved(old_nodes, new_nodes),
                )
            )
    return results


def changed(
    groups: Groups, hosts: Sequence[str], rng: np.random.Generator, *, join: bool
) -> Groups:
    """Let one subscriber join a group, or leave one that keeps two others.

    Groups are drawn by their size, so that the sizes change little.
    """
    names = sorted(
        name
        for name, members in groups.items()
        if (len(members) < len(hosts) if join else len(members) > 2)
    )
    sizes = np.array([len(groups[name]) for name in names], dtype=np.float64)
    name = names[int(rng.choice(len(names), p=sizes / sizes.sum()))]
    among = sorted(set(hosts) - groups[name]) if join else sorted(groups[name])
    return {**groups, name: groups[name] ^ {among[int(rng.integers(len(among)))]}}


def _measured(groups: Groups, graph: Graph, nodes: Mapping[Pair, int], where: Ground) -> Measured:
    paths = node_paths(graph, nodes)
    following = 1 + max(nodes.values(), default=-1)
    for group in sorted(groups):
        if not paths.get(group):
            paths[group] = (following,)
            following += 1
    most = busiest(groups, graph, nodes)
    sites = Sites(where.apart, where.away)
    site = near(paths, groups, sites, urgency(groups, where))
    return Measured(
        float(len(set(nodes.values()))),
        sum(len(groups[group]) * len(path) for group, path in paths.items()) / most.total,
        most.ordering / most.receiver,
        most.passing / most.receiver,
        float(stretches(groups, paths, where, site).mean()),
    )


def _moved(old: Mapping[Pair, int], new: Mapping[Pair, int]) -> float:
    """The share of atoms that change their node when new nodes are matched with old ones.

    Each new node is the old one that it shares the most atoms with, as far as that one is free.
    """
    shared: dict[tuple[int, int], int] = {}
    for pair, node in new.items():
        shared[old[pair], node] = shared.get((old[pair], node), 0) + 1
    taken: set[int] = set()
    stay = 0
    used: set[int] = set()
    for (before, after), count in sorted(shared.items(), key=lambda each: (-each[1], each[0])):
        if before not in taken and after not in used:
            taken.add(before)
            used.add(after)
            stay += count
    return 1 - stay / max(len(new), 1)


def _means(results: Sequence[Changed]) -> Changed:
    def measured(graphs: Sequence[Measured]) -> Measured:
        fields = ("nodes", "hops", "ordering", "passing", "stretch")
        return Measured(
            **{name: float(np.mean([getattr(each, name) for each in graphs])) for name in fields}
        )

    return Changed(
        results[0].groups,
        results[0].changes,
        len(results),
        measured([each.kept for each in results]),
        measured([each.anew for each in results]),
        *(
            float(np.mean([getattr(each, name) for each in results]))
            for name in ("begun", "ended", "moved")
        ),
    )
