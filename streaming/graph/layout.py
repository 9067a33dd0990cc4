"""Where everything stands in the picture of a sequencing graph.

A lane (a row) for each group, a column for each atom, in the order in which messages pass: all
paths lead from left to right. An atom joins the lanes of its two groups. Columns are in the boxes
of their nodes; groups that share no atom with others, directly or by a chain, have a band of lanes
of their own, and bands share the columns of a box.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streaming.graph.text import count, cut, width

if TYPE_CHECKING:
    from sequencer.groups.network.lines import Line
    from sequencer.groups.network.overlaps import Pair
    from sequencer.groups.network.overview import Overview
    from sequencer.groups.network.placement import Load

NAME_MAX = 24
LANE = 16.0
COLUMNS_WIDTH = 1400.0
COLUMN_MIN, COLUMN_MAX = 6.0, 32.0
NAMED_COLUMN_MIN = 15.0
BOX_MIN, BOX_PAD, BOX_GAP = 140.0, 14.0, 34.0
BOX_HEAD, HEAD_PAD = 74.0, 12.0
BAND_PAD = 14.0
MARGIN = 24.0
TOP = 78.0
STUB = 12.0
ATOM_NAME_MAX = 16
SLOPE = 0.71


@dataclass(frozen=True, slots=True)
class Box:
    """A node, and the left and right end of its box."""

    node: int
    left: float
    right: float


@dataclass(frozen=True, slots=True)
class Lane:
    """A group's path at one height, from a little before its first atom to after its last one.

    ``boxes`` are those that it passes; ``stamping`` the nodes among them whose atoms number the
    group's messages. Its name ends where the path starts.
    """

    group: str
    y: float
    start: float
    end: float
    boxes: tuple[Box, ...]
    stamping: frozenset[int]


@dataclass(frozen=True, slots=True)
class Dot:
    """An atom: its column, and the heights of its groups' lanes, in the order of the pair.

    ``top`` is the height of the first lane of its band.
    """

    pair: Pair
    x: float
    top: float
    ys: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Layout:
    """The whole, in the unit of the SVG. ``column`` is the least width of an atom's column.

    ``right`` is where boxes and the names beside them end, ``bottom`` where boxes do.
    """

    boxes: tuple[Box, ...]
    lanes: tuple[Lane, ...]
    dots: tuple[Dot, ...]
    column: float
    right: float
    bottom: float

    @property
    def named(self) -> bool:
        """Whether there is room for names of atoms."""
        return self.column >= NAMED_COLUMN_MIN


def end_label(view: Overview, group: str) -> str:
    """What stands at the end of a path: how many subscribers get the messages."""
    return f"to {len(view.groups[group]):,}"


def lay_out(view: Overview) -> Layout:
    """Places for all atoms and for all groups that have one."""
    lines = sorted(view.graph.lines(), key=lambda line: (-len(line.atoms), line.atoms))
    columns = _columns(view, lines)
    total = max(sum(columns.values()), 1)
    column = min(max(COLUMNS_WIDTH / total, COLUMN_MIN), COLUMN_MAX)
    # The boxes begin at 0 at first; names at the starts of paths tell how far they have to move.
    boxes = _boxes(view, columns, column)
    xs = [_xs(view, line, boxes, columns) for line in lines]
    starts = (
        (group, _start(group, at[run[0]], boxes[view.placed[run[0]]]))
        for line, at in zip(lines, xs, strict=True)
        for group, run in line.runs()
    )
    names = (name_width(group) + 6 - start for group, start in starts)
    left = MARGIN + max(0.0, max(names, default=0.0))
    boxes = {node: Box(node, box.left + left, box.right + left) for node, box in boxes.items()}
    lanes: list[Lane] = []
    dots: list[Dot] = []
    y = TOP + BOX_HEAD
    for line, at in zip(lines, xs, strict=True):
        if column >= NAMED_COLUMN_MIN:
            y += SLOPE * max(width(atom_name(pair)) for pair in line.atoms)
        y += BAND_PAD
        moved = {pair: x + left for pair, x in at.items()}
        band = _lanes(view, line, moved, boxes, y)
        height = {lane.group: lane.y for lane in band}
        dots += [
            Dot(pair, moved[pair], y, (height[pair[0]], height[pair[1]])) for pair in line.atoms
        ]
        lanes += band
        y += LANE * (len(band) - 1) + BAND_PAD
    ends = [lane.end + 10 + width(end_label(view, lane.group)) for lane in lanes]
    if column >= NAMED_COLUMN_MIN:
        ends += [dot.x + SLOPE * width(atom_name(dot.pair)) for dot in dots]
    right = max([*ends, *(box.right for box in boxes.values())], default=left)
    return Layout(tuple(boxes.values()), tuple(lanes), tuple(dots), column, right, y)


def name_width(group: str) -> float:
    """The width of a group's name at the start of its path."""
    return width(cut(group, NAME_MAX), bold=True)


def load_text(view: Overview, load: Load) -> str:
    """The load of a node beside the limit."""
    return f"orders {count(load.ordering)}, limit {count(view.limit)}"


def atom_name(pair: Pair) -> str:
    """The name of an atom, short."""
    return "+".join(cut(name, ATOM_NAME_MAX) for name in pair)


def _columns(view: Overview, lines: list[Line]) -> dict[int, int]:
    """Return how many columns each node needs: as many as the longest stretch of a line in it."""
    widest: dict[int, int] = {load.node: 0 for load in view.loads}
    for line in lines:
        stretch: dict[int, int] = {}
        for pair in line.atoms:
            node = view.placed[pair]
            stretch[node] = stretch.get(node, 0) + 1
        for node, length in stretch.items():
            widest[node] = max(widest[node], length)
    return dict(sorted(widest.items()))


def _boxes(view: Overview, columns: Mapping[int, int], column: float) -> dict[int, Box]:
    """The boxes from 0 on, each as wide as its atoms, or the text on its top, need it."""
    widest = max((width(load_text(view, load)) for load in view.loads), default=0.0)
    least = max(BOX_MIN, widest + 2 * HEAD_PAD)
    boxes: dict[int, Box] = {}
    left = 0.0
    for node, atoms in columns.items():
        right = left + max(atoms * column + 2 * BOX_PAD, least)
        boxes[node] = Box(node, left, right)
        left = right + BOX_GAP
    return boxes


def _xs(
    view: Overview, line: Line, boxes: Mapping[int, Box], columns: Mapping[int, int]
) -> dict[Pair, float]:
    """The columns of a line's atoms, those of each node from the left end of its box."""
    xs: dict[Pair, float] = {}
    taken: dict[int, int] = {}
    for pair in line.atoms:
        node = view.placed[pair]
        box, at = boxes[node], taken.get(node, 0)
        taken[node] = at + 1
        step = (box.right - box.left - 2 * BOX_PAD) / columns[node]
        xs[pair] = box.left + BOX_PAD + (at + 0.5) * step
    return xs


def _start(group: str, x: float, box: Box) -> float:
    """Where a path starts: before its first atom; outside of the box if its name needs it."""
    inside = x - STUB
    name = name_width(group) + 6
    return inside if inside - name > box.left else box.left - 8


def _end(view: Overview, group: str, x: float, box: Box) -> float:
    """Where a path ends: after its last atom; outside of the box if the text there needs it."""
    inside = x + STUB
    return inside if inside + width(end_label(view, group)) + 8 < box.right else box.right + 8


def _lanes(
    view: Overview, line: Line, xs: Mapping[Pair, float], boxes: Mapping[int, Box], top: float
) -> list[Lane]:
    """Lanes from the top down: those of paths that begin early first, so that they form stairs."""
    runs = sorted(line.runs(), key=lambda named: (named[1].start, named[1].stop, named[0]))
    nodes = sorted(boxes)
    lanes: list[Lane] = []
    for at, (group, run) in enumerate(runs):
        first, last = view.placed[run[0]], view.placed[run[-1]]
        passed = nodes[bisect_left(nodes, first) : bisect_left(nodes, last) + 1]
        stamping = frozenset(view.placed[pair] for pair in run.stamping(group))
        lanes.append(
            Lane(
                group,
                top + at * LANE,
                _start(group, xs[run[0]], boxes[first]),
                _end(view, group, xs[run[-1]], boxes[last]),
                tuple(boxes[node] for node in passed),
                stamping,
            )
        )
    return lanes
