"""Pictures of what `sequencer simulate` measures, with the paper's figures as dashed lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from statistics import mode
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from streaming.simulate.figure1_drawing import draw_steps

if TYPE_CHECKING:
    from sequencer.checking.cost import Cost
    from sequencer.simulation.counts import Counted
    from sequencer.simulation.growth import Grown
    from sequencer.simulation.latency import StretchOf
    from sequencer.simulation.load import Placed
    from sequencer.simulation.stamps import Stamps

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
PAPER = "#666666"
# What the text of the paper says (sections 4.2 to 4.4); its plots are not to be had as numbers.
PAPER_STRETCH_MOST = {8: 2.5, 64: 5.0}
PAPER_FLATTER_AFTER = 20
PAPER_PEAK = 0.15
PAPER_ONE_NODE_ABOVE = 0.9


def draw(figure: str, results: Sequence[Any], folder: Path) -> Path:
    """Draw one figure into a folder, which exists; returns the file."""
    mpl.rcParams.update(
        {
            "font.size": 10,
            "axes.grid": True,
            "grid.alpha": 0.3,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    )
    name, drawing = _DRAWINGS[figure]
    picture = drawing(results)
    path = folder / name
    # No date or version: the same results give the same file.
    picture.savefig(path, dpi=110, metadata={"Software": None})
    return path


def _axes(columns: int = 1) -> tuple[Figure, list[Any]]:
    picture = Figure(figsize=(6.8 if columns == 1 else 10.5, 4.2), layout="constrained")
    axes = picture.subplots(1, columns, squeeze=False)[0]
    return picture, list(axes)


def _stretch(results: Sequence[StretchOf]) -> Figure:
    picture, (axes,) = _axes()
    for colour, each in zip(COLOURS, results, strict=False):
        share = np.arange(1, len(each.values) + 1) / len(each.values)
        axes.plot(each.values, share, color=colour, label=f"{each.groups} groups")
        most = PAPER_STRETCH_MOST.get(each.groups)
        if most:
            axes.axvline(most, color=colour, linestyle="--", linewidth=1)
            axes.annotate(
                f"paper's maximum,\n{each.groups} groups: {most:g}",
                (most, 0.06),
                xytext=(-5, 0),
                textcoords="offset points",
                ha="right",
                fontsize=8,
                color=colour,
            )
    axes.set(
        xlabel="latency stretch (through the sequencing network / direct)",
        ylabel="share of subscribers",
        title=f"Latency stretch, 128 subscribers, {results[0].runs} runs each",
        xlim=(0.9, 5.4),
        ylim=(0, 1.02),
    )
    axes.legend(loc="center right")
    return picture


def _spread(
    axes: Any, results: Sequence[Counted], field: str, colour: str, label: str, beside: float = 0
) -> None:
    at = [each.at + beside for each in results]
    mean = np.array([getattr(each, field).mean for each in results])
    low = mean - [getattr(each, field).p10 for each in results]
    high = [getattr(each, field).p90 for each in results] - mean
    # A skewed spread can have its mean outside of its percentiles.
    bars = np.maximum([low, high], 0)
    axes.errorbar(at, mean, yerr=bars, color=colour, capsize=3, marker="o", ms=3, label=label)


def _nodes(results: Sequence[Counted]) -> Figure:
    picture, (axes,) = _axes()
    _spread(axes, results, "nodes", COLOURS[0], "sequencing nodes")
    alone = "for double overlaps alone, as in the paper"
    # Bars of one place stand beside each other.
    _spread(axes, results, "paper_nodes", COLOURS[2], alone, beside=0.35)
    _spread(axes, results, "hops", COLOURS[1], "nodes that a message passes", beside=-0.35)
    axes.axvline(
        PAPER_FLATTER_AFTER,
        color=PAPER,
        linestyle="--",
        linewidth=1,
        label=f"paper: grows more gradually after {PAPER_FLATTER_AFTER}",
    )
    axes.set(
        xlabel="groups",
        ylabel="nodes (mean, 10th and 90th percentile)",
        title=f"Sequencing nodes, 128 subscribers, {results[0].runs} runs each",
        xlim=(0, None),
        ylim=(0, None),
    )
    axes.legend(loc="upper left")
    return picture


def _occupancy(results: Sequence[Counted]) -> Figure:
    picture, (axes, right) = _axes(2)
    _spread(axes, results, "nodes", COLOURS[0], "sequencing nodes")
    alone = "for double overlaps alone, as in the paper"
    _spread(axes, results, "paper_nodes", COLOURS[2], alone, beside=0.005)
    _spread(right, results, "overlaps", COLOURS[2], "double overlaps")
    at = [each.at for each in results]
    right.plot(
        at,
        [each.atoms.mean for each in results],
        color=COLOURS[5],
        linestyle=":",
        label="atoms (with single overlaps on rings)",
    )
    axes.axvline(
        PAPER_PEAK, color=PAPER, linestyle="--", linewidth=1, label=f"paper: peak, {PAPER_PEAK}"
    )
    axes.axvspan(
        PAPER_ONE_NODE_ABOVE, 1, color=PAPER, alpha=0.15, label="paper: one node above 0.9"
    )
    axes.set(ylabel="nodes (mean, 10th and 90th percentile)", title="Sequencing nodes")
    right.set(ylabel="overlaps", title="Overlaps")
    for one in (axes, right):
        one.set(xlabel="occupancy", xlim=(0, 1.01), ylim=(0, None))
        one.legend(loc="upper right" if one is axes else "lower right")
    picture.suptitle(f"128 subscribers, 32 groups, {results[0].runs} runs each", fontsize=11)
    return picture


def _stamps(results: Sequence[Stamps]) -> Figure:
    picture, both = _axes(2)
    for axes, by in zip(both, ("groups", "occupancy"), strict=True):
        some = [each for each in results if each.by == by]
        at = [each.at for each in some]
        axes.axhline(
            some[0].vector, color=PAPER, linestyle="--", label=f"vector timestamp: {some[0].vector}"
        )
        axes.plot(at, [each.most for each in some], color=COLOURS[5], marker="^", label="most")
        axes.plot(
            at,
            [each.collected for each in some],
            color=COLOURS[0],
            marker="o",
            label="collected on the path, mean",
        )
        axes.plot(
            at,
            [each.needed for each in some],
            color=COLOURS[2],
            marker="s",
            label="needed by a receiver, mean",
        )
        axes.set(ylim=(0, some[0].vector * 1.08), ylabel="numbers on a message")
    both[0].set(xlabel="groups", title="Sizes after Zipf")
    both[1].set(xlabel="occupancy", title="32 groups", xlim=(0, 1.01))
    both[1].legend(loc="center right", fontsize=9)
    picture.suptitle("Stamps against a vector timestamp, 128 subscribers", fontsize=11)
    return picture


def _load(results: Sequence[Placed]) -> Figure:
    picture, (axes, right) = _axes(2)
    series = (
        ("total", "central sequencer", COLOURS[5]),
        ("dealt_ordering", "busiest node, atoms dealt at random", COLOURS[1]),
        ("passing", "busiest node, transit counted too", COLOURS[4]),
        ("unavoidable", "the same, least of any loop-free graph", COLOURS[3]),
        ("ordering", "busiest node", COLOURS[0]),
        ("receiver", "busiest receiver (the limit)", COLOURS[2]),
    )
    place = np.arange(len(results))
    for number, (field, label, colour) in enumerate(series):
        width = 0.8 / len(series)
        axes.bar(
            place + (number - 2.5) * width,
            [getattr(each, field) for each in results],
            width,
            color=colour,
            label=label,
        )
    axes.set(ylabel="messages", title="Load", ylim=(0, max(each.total for each in results) * 1.5))
    axes.legend(loc="upper left", fontsize=8)
    ways = (
        ("alone", "every atom alone, random routers (lower bound)", COLOURS[5]),
        ("far", "the same nodes, random routers", COLOURS[1]),
        ("near", "nodes near subscribers (ours)", COLOURS[0]),
        ("central", "one central sequencer", COLOURS[2]),
    )
    for field, label, colour in ways:
        mean = [getattr(each, field) for each in results]
        most = [getattr(each, f"{field}_most") for each in results]
        right.plot(place, mean, color=colour, marker="o", label=label)
        right.plot(place, most, color=colour, marker="^", linestyle=":")
    paper = [PAPER_STRETCH_MOST.get(each.groups, np.nan) for each in results]
    right.plot(place, paper, "x", color=PAPER, ms=9, label="paper, maximum")
    right.set(yscale="log", ylabel="latency stretch", title="Placement: mean (●) and maximum (▲)")
    right.set_yticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
    right.set_ylim(1, 400)
    right.legend(loc="upper left", fontsize=8)
    for one in (axes, right):
        one.set_xticks(place, [str(each.groups) for each in results])
        one.set_xlabel("groups")
    return picture


def _growth(results: Sequence[Grown]) -> Figure:
    picture, both = _axes(2)
    at = [each.groups for each in results]
    panels = (
        (("atoms", "atoms"), ("total", "messages"), ("ordering", "busiest node orders"),
         ("collected", "stamps on a message"), ("nodes", "nodes"),
         ("needed", "stamps that a receiver needs")),
        (("hops", "nodes that a message passes, mean"), ("stretch", "latency stretch, mean"),
         ("stretch_most", "latency stretch, maximum")),
    )  # fmt: skip
    for axes, fields in zip(both, panels, strict=True):
        for colour, (field, label) in zip(COLOURS, fields, strict=False):
            values = [getattr(each, field) for each in results]
            axes.plot(at, values, color=colour, marker="o", ms=4, label=label)
        axes.set(xscale="log", xlabel="groups")
        axes.set_xticks(at, [f"{each.groups:,}\n({each.subscribers:,})" for each in results])
        axes.minorticks_off()
        axes.legend(fontsize=8, loc="upper left")
    both[0].set(yscale="log", title="Sizes and loads", ylabel="count", ylim=(1, 3e7))
    both[1].set(title="Paths", ylim=(0, None))
    picture.suptitle("Growth: groups (subscribers), sizes of groups after Zipf", fontsize=11)
    return picture


def _cost(results: Sequence[Cost]) -> Figure:
    picture, (axes, right) = _axes(2)
    for order, colour in (("clock", COLOURS[0]), ("counter", COLOURS[1])):
        own = [each for each in dict.fromkeys(results) if each.order == order]
        # The settings of one panel have the other's number in common, which is the most frequent.
        usual_m = mode(each.length for each in own)
        usual_n = mode(each.destinations for each in own)
        by_n = [each for each in own if each.length == usual_m]
        by_m = [each for each in own if each.destinations == usual_n]
        for panel, some, field in ((axes, by_n, "destinations"), (right, by_m, "length")):
            some.sort(key=attrgetter(field))
            at = [getattr(each, field) for each in some]
            panel.plot(at, [each.compared for each in some], color=colour, marker="o", label=order)
        axes.set(title=f"queues of m = {usual_m}", xlabel="destinations n")
        right.set(title=f"n = {usual_n} destinations", xlabel="messages in each queue m")
    right.set(xscale="log")
    for panel in (axes, right):
        panel.set(ylabel="comparisons", ylim=(0, None))
        panel.legend(loc="upper left")
    picture.suptitle("What a message costs: O(n log m)", fontsize=11)
    return picture


_DRAWINGS: dict[str, tuple[str, Callable[[Sequence[Any]], Figure]]] = {
    "1": ("figure-1-groups.png", draw_steps),
    "2": ("figure-2-latency-stretch.png", _stretch),
    "3": ("figure-3-nodes.png", _nodes),
    "4": ("figure-4-occupancy.png", _occupancy),
    "stamps": ("stamps.png", _stamps),
    "load": ("load-and-placement.png", _load),
    "growth": ("growth.png", _growth),
    "cost": ("cost-of-a-message.png", _cost),
}
