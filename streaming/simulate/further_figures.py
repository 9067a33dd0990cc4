"""Pictures of what goes beyond the paper's figures."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from statistics import mode
from typing import TYPE_CHECKING

import numpy as np

from streaming.simulate.canvas import COLOURS, PAPER, PAPER_STRETCH_MOST, blank

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sequencer.checking.cost import Cost
    from sequencer.simulation.changes import Changed
    from sequencer.simulation.growth import Grown
    from sequencer.simulation.hosts import Varied
    from sequencer.simulation.load import Placements
    from sequencer.simulation.stamps import Stamps
    from sequencer.simulation.trees import Compared


def draw_stamps(results: Sequence[Stamps]) -> Figure:
    """Numbers on a message, by groups and by occupancy."""
    picture, both = blank(2)
    for axes, by in zip(both, ("groups", "occupancy"), strict=True):
        shown = [result for result in results if result.by == by]
        at = [result.at for result in shown]
        axes.axhline(
            shown[0].vector,
            color=PAPER,
            linestyle="--",
            label=f"vector timestamp: {shown[0].vector}",
        )
        axes.plot(at, [result.most for result in shown], color=COLOURS[5], marker="^", label="most")
        axes.plot(
            at,
            [result.collected for result in shown],
            color=COLOURS[0],
            marker="o",
            label="collected on the path, mean",
        )
        axes.plot(
            at,
            [result.needed for result in shown],
            color=COLOURS[2],
            marker="s",
            label="needed by a receiver, mean",
        )
        axes.set(ylim=(0, shown[0].vector * 1.08), ylabel="numbers on a message")
    both[0].set(xlabel="groups", title="Sizes after Zipf")
    both[1].set(xlabel="occupancy", title="32 groups", xlim=(0, 1.01))
    both[1].legend(loc="center right", fontsize=9)
    picture.suptitle("Stamps against a vector timestamp, 128 subscribers", fontsize=11)
    return picture


def draw_load(results: Sequence[Placements]) -> Figure:
    """The busiest, and ways to place nodes."""
    picture, (axes, right) = blank(2)
    series = (
        ("total", "central sequencer", COLOURS[5]),
        ("dealt_ordering", "busiest node, atoms dealt at random", COLOURS[1]),
        ("passing", "busiest node, transit counted too", COLOURS[4]),
        ("unavoidable", "the same, least of any loop-free graph", COLOURS[3]),
        ("ordering", "busiest node", COLOURS[0]),
        ("receiver", "busiest receiver (the limit)", COLOURS[2]),
    )
    index = np.arange(len(results))
    for number, (field, label, colour) in enumerate(series):
        width = 0.8 / len(series)
        axes.bar(
            index + (number - 2.5) * width,
            [getattr(result, field) for result in results],
            width,
            color=colour,
            label=label,
        )
    axes.set(
        ylabel="messages", title="Load", ylim=(0, max(result.total for result in results) * 1.5)
    )
    axes.legend(loc="upper left", fontsize=8)
    ways = (
        ("alone", "every atom alone, random routers (lower bound)", COLOURS[5]),
        ("far", "the same nodes, random routers", COLOURS[1]),
        ("near", "nodes near subscribers (ours)", COLOURS[0]),
        ("central", "one central sequencer", COLOURS[2]),
    )
    for field, label, colour in ways:
        mean = [getattr(result, field) for result in results]
        most = [getattr(result, f"{field}_most") for result in results]
        right.plot(index, mean, color=colour, marker="o", label=label)
        right.plot(index, most, color=colour, marker="^", linestyle=":")
    paper = [PAPER_STRETCH_MOST.get(result.groups, np.nan) for result in results]
    right.plot(index, paper, "x", color=PAPER, ms=9, label="paper, maximum")
    right.set(yscale="log", ylabel="latency stretch", title="Placement: mean (●) and maximum (▲)")
    right.set_yticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
    right.set_ylim(1, 400)
    right.legend(loc="upper left", fontsize=8)
    for one in (axes, right):
        one.set_xticks(index, [str(result.groups) for result in results])
        one.set_xlabel("groups")
    return picture


def draw_hosts(results: Sequence[Varied]) -> Figure:
    """Stretch and load by hosts, members anywhere or nearest."""
    picture, (axes, right) = blank(2)
    for colour, count in zip(COLOURS, sorted({result.groups for result in results}), strict=False):
        for members, line in (("anywhere", "-"), ("nearest", "--")):
            shown = [
                result for result in results if (result.groups, result.members) == (count, members)
            ]
            at = [result.hosts for result in shown]
            label = f"{count} groups, members {members}"
            mean = [result.stretch for result in shown]
            axes.plot(at, mean, line, color=colour, marker="o", label=label)
            share = [result.passing / result.total for result in shown]
            right.plot(at, share, line, color=colour, marker="o", label=label)
    axes.set(ylabel="latency stretch, mean", title="Latency", ylim=(1, None))
    right.set(ylabel="share of all messages", title="What the busiest node sees", ylim=(0, 1.02))
    for panel in (axes, right):
        panel.set(xlabel="hosts")
        panel.set_xticks(sorted({result.hosts for result in results}))
    right.legend(loc="lower right", fontsize=8)
    picture.suptitle(
        f"Fewer hosts, and groups of neighbours, {results[0].runs} runs each", fontsize=11
    )
    return picture


def draw_trees(results: Sequence[Compared]) -> Figure:
    """What the busiest node sees, and hops, on lines and trees."""
    picture, (axes, right) = blank(2)
    at = [result.groups for result in results]
    ways = (
        ("built", "line as built", COLOURS[0], "o", "-"),
        ("least", "line that sees least", COLOURS[1], "s", "-"),
        ("tree", "annealed tree", COLOURS[2], "x", "--"),
    )
    for name, label, colour, marker, line in ways:
        for panel, field in ((axes, "seen"), (right, "hops")):
            values = [getattr(result, f"{name}_{field}") for result in results]
            panel.plot(at, values, line, color=colour, marker=marker, label=label)
    total, least = (
        [getattr(result, name) for result in results] for name in ("total", "unavoidable")
    )
    axes.plot(at, total, ":", color=COLOURS[5], label="central sequencer")
    axes.plot(at, least, ":", color=PAPER, label="any graph, at least")
    axes.set(ylabel="messages", title="What the busiest node sees", ylim=(0, None))
    right.set(ylabel="nodes", title="Nodes that a message passes, mean", yscale="log")
    right.set_yticks([2, 5, 10, 20], ["2", "5", "10", "20"])
    for panel in (axes, right):
        panel.set(xlabel="groups", xscale="log")
        panel.set_xticks(at, [str(count) for count in at])
        panel.minorticks_off()
    axes.legend(loc="lower right", fontsize=8)
    picture.suptitle(f"Lines and trees of atoms, {results[0].runs} runs each", fontsize=11)
    return picture


def draw_growth(results: Sequence[Grown]) -> Figure:
    """Everything that grows with groups and subscribers."""
    picture, both = blank(2)
    at = [result.groups for result in results]
    panels = (
        (("atoms", "atoms"), ("total", "messages"), ("passing", "busiest node sees"),
         ("ordering", "busiest node orders"), ("collected", "stamps on a message"),
         ("nodes", "nodes"), ("needed", "stamps that a receiver needs")),
        (("hops", "nodes that a message passes, mean"), ("stretch", "latency stretch, mean"),
         ("stretch_most", "latency stretch, maximum")),
    )  # fmt: skip
    for axes, fields in zip(both, panels, strict=True):
        for colour, (field, label) in zip(COLOURS, fields, strict=False):
            values = [getattr(result, field) for result in results]
            axes.plot(at, values, color=colour, marker="o", ms=4, label=label)
        axes.set(xscale="log", xlabel="groups")
        axes.set_xticks(at, [f"{result.groups:,}\n({result.subscribers:,})" for result in results])
        axes.minorticks_off()
        axes.legend(fontsize=8, loc="upper left")
    both[0].set(yscale="log", title="Sizes and loads", ylabel="count", ylim=(1, 3e7))
    both[1].set(title="Paths", ylim=(0, None))
    picture.suptitle("Growth: groups (subscribers), sizes of groups after Zipf", fontsize=11)
    return picture


def draw_changes(results: Sequence[Changed]) -> Figure:
    """A graph changed atom by atom, as a share of one made anew, by joins and leaves."""
    picture, both = blank(2)
    fields = (("hops", "Nodes that a message passes"), ("ordering", "What the busiest node orders"))
    for axes, (field, title) in zip(both, fields, strict=True):
        for colour, groups in zip(COLOURS, dict.fromkeys(r.groups for r in results), strict=False):
            shown = [result for result in results if result.groups == groups]
            share = [getattr(each.kept, field) / getattr(each.anew, field) for each in shown]
            axes.plot(range(len(shown)), share, color=colour, marker="o", label=f"{groups} groups")
        axes.axhline(1, color=PAPER, linestyle="--", label="made anew")
        axes.set(xlabel="joins and leaves", title=title, ylabel="of one made anew")
        steps = list(dict.fromkeys(result.changes for result in results))
        axes.set_xticks(range(len(steps)), [f"{step:,}" for step in steps])
    both[0].legend(loc="upper left", fontsize=9)
    picture.suptitle(f"Changes one by one, {results[0].runs} runs each", fontsize=11)
    return picture


def draw_cost(results: Sequence[Cost]) -> Figure:
    """Comparisons for a multicast, by destinations and by queues."""
    picture, (axes, right) = blank(2)
    for order, colour in (("clock", COLOURS[0]), ("counter", COLOURS[1])):
        costs = [cost for cost in dict.fromkeys(results) if cost.order == order]
        # The settings of one panel have the other's number in common, which is the most frequent.
        usual_m = mode(cost.length for cost in costs)
        usual_n = mode(cost.destinations for cost in costs)
        by_n = [cost for cost in costs if cost.length == usual_m]
        by_m = [cost for cost in costs if cost.destinations == usual_n]
        for panel, shown, field in ((axes, by_n, "destinations"), (right, by_m, "length")):
            shown.sort(key=attrgetter(field))
            at = [getattr(cost, field) for cost in shown]
            panel.plot(at, [cost.compared for cost in shown], color=colour, marker="o", label=order)
        axes.set(title=f"queues of m = {usual_m}", xlabel="destinations n")
        right.set(title=f"n = {usual_n} destinations", xlabel="messages in each queue m")
    right.set(xscale="log")
    for panel in (axes, right):
        panel.set(ylabel="comparisons", ylim=(0, None))
        panel.legend(loc="upper left")
    picture.suptitle("What a message costs: O(n log m)", fontsize=11)
    return picture
