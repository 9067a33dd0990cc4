"""Pictures of what `sequencer simulate` measures, with the paper's figures as dashed lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from streaming.simulate.canvas import COLOURS, PAPER, PAPER_STRETCH_MOST, blank
from streaming.simulate.figure1_drawing import draw_steps
from streaming.simulate.further_figures import (
    draw_changes,
    draw_cost,
    draw_growth,
    draw_hosts,
    draw_load,
    draw_stamps,
    draw_trees,
)

if TYPE_CHECKING:
    from sequencer.simulation.counts import Counted
    from sequencer.simulation.latency import StretchOf

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


def _stretch(results: Sequence[StretchOf]) -> Figure:
    picture, (axes, right) = blank(2)
    for colour, result in zip(COLOURS, results, strict=False):
        for panel, values in ((axes, result.values), (right, result.ratios)):
            share = np.arange(1, len(values) + 1) / len(values)
            panel.plot(values, share, color=colour, label=f"{result.groups} groups")
        most = PAPER_STRETCH_MOST.get(result.groups)
        if most:
            axes.axvline(most, color=colour, linestyle="--", linewidth=1)
            axes.annotate(
                f"paper's maximum,\n{result.groups} groups: {most:g}",
                (most, 0.06),
                xytext=(-5, 0),
                textcoords="offset points",
                ha="right",
                fontsize=8,
                color=colour,
            )
    axes.set(title="Ratio of averages", xlim=(0.9, 5.4))
    right.set(title="Average of ratios", xscale="log")
    right.set_xticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
    right.minorticks_off()
    for panel in (axes, right):
        panel.set(xlabel="latency stretch", ylabel="share of subscribers", ylim=(0, 1.02))
        panel.legend(loc="center right")
    picture.suptitle(
        f"Time through the sequencing network / direct, {results[0].runs} runs each", fontsize=11
    )
    return picture


def _spread(
    axes: Any, results: Sequence[Counted], field: str, colour: str, label: str, beside: float = 0
) -> None:
    at = [result.at + beside for result in results]
    mean = np.array([getattr(result, field).mean for result in results])
    low = mean - [getattr(result, field).p10 for result in results]
    high = [getattr(result, field).p90 for result in results] - mean
    # A skewed spread can have its mean outside of its percentiles.
    bars = np.maximum([low, high], 0)
    axes.errorbar(at, mean, yerr=bars, color=colour, capsize=3, marker="o", ms=3, label=label)


def _nodes(results: Sequence[Counted]) -> Figure:
    picture, (axes,) = blank()
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
    picture, (axes, right) = blank(2)
    _spread(axes, results, "nodes", COLOURS[0], "sequencing nodes")
    alone = "for double overlaps alone, as in the paper"
    _spread(axes, results, "paper_nodes", COLOURS[2], alone, beside=0.005)
    _spread(right, results, "overlaps", COLOURS[2], "double overlaps")
    at = [result.at for result in results]
    right.plot(
        at,
        [result.atoms.mean for result in results],
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


_DRAWINGS: dict[str, tuple[str, Callable[[Sequence[Any]], Figure]]] = {
    "1": ("figure-1-groups.png", draw_steps),
    "2": ("figure-2-latency-stretch.png", _stretch),
    "3": ("figure-3-nodes.png", _nodes),
    "4": ("figure-4-occupancy.png", _occupancy),
    "hosts": ("hosts-and-neighbours.png", draw_hosts),
    "stamps": ("stamps.png", draw_stamps),
    "load": ("load-and-placement.png", draw_load),
    "trees": ("lines-and-trees.png", draw_trees),
    "growth": ("growth.png", draw_growth),
    "changes": ("changes.png", draw_changes),
    "cost": ("cost-of-a-message.png", draw_cost),
}
