"""The paper's figure 1 as a picture: groups as lines through the sequencers that number them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

if TYPE_CHECKING:
    from sequencer.simulation.figure1 import Step

COLOURS = {"G0": "#0072b2", "G1": "#e69f00", "G2": "#009e73", "G3": "#cc79a7", "G4": "#d55e00"}
# Places of sequencers are 0, 1, 2; a group's senders stand at LEFT.
LEFT, RIGHT = -0.6, 2.7
BOX = 0.32


def draw_steps(steps: Sequence[Step]) -> Figure:
    """Four panels, one for each step."""
    picture = Figure(figsize=(10.5, 5.8), layout="constrained")
    panels = picture.subplots(2, 2, height_ratios=(4, 5)).ravel()
    for axes, step in zip(panels, steps, strict=True):
        _panel(axes, step)
    picture.suptitle(
        "Groups as lines through sequencers: ● numbers the group's messages, ○ passes them on",
        fontsize=11,
    )
    return picture


def _panel(axes: Any, step: Step) -> None:
    rows = {group: -at for at, group in enumerate(sorted(step.paths))}
    index = {sequencer.name: at for at, sequencer in enumerate(step.sequencers)}
    lowest = min(rows.values())
    for sequencer in step.sequencers:
        at = index[sequencer.name]
        box = FancyBboxPatch(
            (at - BOX / 2, lowest - 0.35),
            BOX,
            0.7 - lowest,
            boxstyle="round,pad=0.06",
            facecolor="#eeeeee",
            edgecolor="#999999",
            zorder=1,
        )
        axes.add_patch(box)
        common = ", ".join(sorted(sequencer.members))
        axes.text(at, 0.55, f"{sequencer.name}  {{{common}}}", ha="center", va="bottom", fontsize=9)
    for group, row in rows.items():
        colour = COLOURS[group]
        stops = [index[name] for name in step.paths[group]]
        numbering = {index[name] for name in step.numbering(group)}
        # From the senders it is any way: under the boxes that are not on the path.
        axes.plot([LEFT, stops[0]], [row, row], ":", color=colour, lw=1.2, zorder=0)
        axes.annotate(
            "",
            (stops[-1] + 0.5, row),
            xytext=(stops[0], row),
            arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 2, "shrinkA": 0, "shrinkB": 0},
        )
        for stop in stops:
            fill = colour if stop in numbering else "white"
            axes.plot(stop, row, "o", ms=9, mfc=fill, mec=colour, mew=2, zorder=4)
        members = ", ".join(sorted(step.groups[group]))
        axes.text(
            LEFT - 0.08, row, f"{group}  {{{members}}}", ha="right", va="center", color=colour
        )
    axes.set(xlim=(LEFT - 0.9, RIGHT), ylim=(lowest - 0.6, 1.05))
    axes.set_title(step.title, loc="left", weight="bold")
    axes.axis("off")
