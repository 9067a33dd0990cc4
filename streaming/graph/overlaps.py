"""A picture of groups and the overlaps that are numbered, where no nodes order them: SVG.

A lane for each group, a column for each overlap: two dots and a bar join its groups' lanes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from xml.etree import ElementTree as ET

from sequencer.groups.network.overlaps import Overlap, double_overlaps
from streaming.errors import ConfigError
from streaming.graph import layout as at
from streaming.graph.legend import CSS, highlights
from streaming.graph.marks import (
    GROUPS_MAX,
    TITLE_MAX,
    WIDTH_MIN,
    Link,
    add,
    arrows,
    colour,
    document,
    line,
    linked,
    nowhere,
    number,
    text,
    title,
)
from streaming.graph.text import counted, cut, listed, width

LANE = 22.0
TOP = 84.0
OVERLAPS_MAX = 10_000


def draw_overlaps(
    groups: Mapping[str, Collection[str]],
    messages: Mapping[str, int] | None,
    name: str,
    numbers: Mapping[tuple[str, str], int] = MappingProxyType({}),
    link: Link = nowhere,
) -> str:
    """An SVG document of groups and their double overlaps; ``messages`` as for `svg.draw`.

    ``numbers``: the overlaps' next ones, where known; ``link``: where a group's lane leads.
    Equal arguments give equal text. ConfigError for more than a picture can show.
    """
    overlaps = double_overlaps(groups)
    if len(groups) > GROUPS_MAX or len(overlaps) > OVERLAPS_MAX:
        raise ConfigError(
            f"{counted(len(groups), 'group')} with {counted(len(overlaps), 'overlap')} cannot be "
            f"read in a picture ({GROUPS_MAX:,} and {OVERLAPS_MAX:,} are the most).",
            "Nothing was drawn.",
            "Take the figures for programs instead: --json.",
        )
    lanes = {group: index for index, group in enumerate(sorted(groups))}
    left = at.MARGIN + max((at.name_width(group) for group in lanes), default=0.0) + 16
    column = min(max(at.COLUMNS_WIDTH / max(len(overlaps), 1), at.COLUMN_MIN), at.COLUMN_MAX)
    right = left + column * (len(overlaps) + 1)
    ends = [width(f"to {len(members):,}") for members in groups.values()]
    wide = max(right + max(ends, default=0.0) + at.MARGIN + 12, WIDTH_MIN)
    root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "sequencing"})
    title(root, cut(name, TITLE_MAX))
    add(root, "style").text = CSS + highlights(len(lanes))
    background = add(root, "rect", {"class": "paper"})
    text(root, at.MARGIN, 30, cut(name, TITLE_MAX), "name")
    text(root, at.MARGIN, 48, sizes(groups), "quiet")
    caption = (
        "All messages have the order of the micro-batch; a bar is an overlap that is numbered."
    )
    text(root, at.MARGIN, 63, caption, "quiet")
    if not groups:
        text(root, at.MARGIN, TOP, "There are no groups yet.", "quiet")
    for group, index in lanes.items():
        y = TOP + LANE * index
        counts = "" if messages is None else counted(messages.get(group, 0), "message")
        kinds = {"class": f"group g{index} {colour(index)}", "id": f"group-{index}"}
        mark = add(linked(root, link(group)), "g", kinds)
        members = sorted(groups[group])
        title(mark, f"{group}: {counted(len(members), 'member')}", counts, listed(members))
        line(mark, "hit", left, right, y)
        line(mark, "path", left, right, y)
        arrows(mark, [right], y)
        text(mark, left - 4, y + 4, cut(group, at.NAME_MAX), "label start")
        text(mark, right + 8, y + 4, f"to {len(members):,}", "label count")
    for index, overlap in enumerate(overlaps):
        x = left + column * (index + 1)
        _overlap(root, overlap, index, x, lanes, numbers.get(overlap.pair))
    return document(root, background, wide, TOP + LANE * len(lanes) + at.MARGIN)


def sizes(groups: Mapping[str, Collection[str]]) -> str:
    """How much there is, in a line."""
    subscribers = len({member for members in groups.values() for member in members})
    return (
        f"{counted(len(groups), 'group')}, {counted(subscribers, 'subscriber')}, "
        f"{counted(len(double_overlaps(groups)), 'overlap')}"
    )


def _overlap(
    root: ET.Element,
    overlap: Overlap,
    index: int,
    x: float,
    lanes: Mapping[str, int],
    next_number: int | None,
) -> None:
    first, second = (lanes[name] for name in overlap.pair)
    mark = add(root, "g", {"class": f"atom g{first} g{second}", "id": f"overlap-{index}"})
    common = counted(len(overlap.members), "subscriber")
    facts = [f"{common} in common: {listed(sorted(overlap.members))}"]
    facts += [] if next_number is None else [f"next number {next_number:,}"]
    title(mark, " + ".join(overlap.pair), *facts)
    ys = [TOP + LANE * lane for lane in (first, second)]
    add(mark, "path", {"class": "bar", "d": f"M{number(x)} {number(ys[0])}V{number(ys[1])}"})
    for lane, y in zip((first, second), ys, strict=True):
        dot = {"class": colour(lane), "cx": number(x), "cy": number(y), "r": "4"}
        add(mark, "circle", dot)
