"""The look of the picture, and the legend that explains it."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from streaming.graph.marks import (
    COLOURS,
    DARK_COLOURS,
    add,
    arrows,
    colour,
    line,
    number,
    rectangle,
    text,
)
from streaming.graph.text import width

CSS = """
.sequencing { font: 11px "DejaVu Sans", Verdana, Arial, sans-serif; fill: #1e293b; }
.sequencing .paper { fill: #fff; }
.sequencing .name { font-size: 17px; font-weight: bold; }
.sequencing .strong { font-weight: bold; font-size: 13px; }
.sequencing .quiet { fill: #64748b; }
.sequencing .box { fill: #f6f8fb; stroke: #94a3b8; }
.sequencing .orders { fill: #334155; }
.sequencing .passes { fill: #cbd5e1; }
.sequencing .limit { stroke: #d97706; stroke-width: 2; }
.sequencing .over .orders, .sequencing .over .load { fill: #c01c28; }
.sequencing .over .box { stroke: #c01c28; }
.sequencing .path { stroke: currentColor; stroke-width: 2; fill: none; }
.sequencing .transit { stroke-width: 1.3; stroke-dasharray: 2 3; }
.sequencing .arrow { fill: currentColor; }
.sequencing .hit { stroke: #000; stroke-opacity: 0; fill: none; pointer-events: stroke; }
.sequencing .group .hit { stroke-width: 11px; }
.sequencing .label { fill: currentColor; paint-order: stroke; stroke: #fff;
  stroke-opacity: .85; stroke-width: 3px; stroke-linejoin: round; }
.sequencing .start { text-anchor: end; font-weight: bold; }
.sequencing .bar { stroke: #475569; stroke-opacity: .45; fill: none; }
.sequencing .single .bar { stroke-dasharray: 2 2; }
.sequencing circle { fill: currentColor; stroke: #fff; stroke-width: .6; }
.sequencing .atom-name { font-size: 10px; fill: #475569; }
.sequencing .group:hover .path { stroke-width: 3.5; }
.sequencing .atom:hover .bar { stroke-opacity: 1; stroke-width: 2.5; }
.sequencing:has(.group:hover) :is(.group, .atom),
.sequencing:has(.atom:hover) :is(.group, .atom) { opacity: .1; }
.sequencing:has(.atom:hover) .atom:hover { opacity: 1; }
"""
"""Of several rules for one element, the later ones and those that name a group win."""

DARK = """
@media (prefers-color-scheme: dark) {
.sequencing { fill: #e2e8f0; }
.sequencing .paper { fill: #15181b; }
.sequencing .quiet, .sequencing .atom-name { fill: #a2a9b0; }
.sequencing .box { fill: #1d2125; }
.sequencing .orders { fill: #cbd5e1; }
.sequencing .passes { fill: #475569; }
.sequencing .over .orders, .sequencing .over .load { fill: #ff9a91; }
.sequencing .hit { stroke: #fff; }
.sequencing .label, .sequencing circle { stroke: #15181b; }
.sequencing .bar { stroke: #94a3b8; }
%s}
"""

_ROW = 22.0


def highlights(groups: int) -> str:
    """Rules: with the pointer on a group or an atom, what belongs to it stays and the rest fades.

    A browser that does not know ``:has`` fades nothing.
    """
    colours = "".join(
        f".sequencing .c{at} {{ color: {colour}; }}\n" for at, colour in enumerate(COLOURS)
    )
    light = "".join(
        f".sequencing .c{at} {{ color: {colour}; }}\n" for at, colour in enumerate(DARK_COLOURS)
    )
    return (
        colours
        + DARK % light
        + "".join(
            f".sequencing:has(.group.g{at}:hover) .g{at}, "
            f".sequencing:has(.atom.g{at}:hover) .group.g{at} {{ opacity: 1; }}\n"
            for at in range(groups)
        )
    )


def add_legend(root: ET.Element, left: float, top: float, wide: float) -> float:
    """The legend, in rows of at most this width; returns where it ends."""
    legend = add(root, "g", {"class": "legend"})
    text(legend, left, top + 12, "How to read it", "strong")
    x, y = left, top + 34
    for sample, words in (
        (_path, "path of a group's messages: name, ingress, atoms, number of its subscribers"),
        (_transit, "the node only passes them on"),
        (_atom, "atom: numbers the messages of both groups (two or more common subscribers)"),
        (_single, "the same for one common subscriber, on a ring of groups"),
        (_load, "messages that the node orders, in pale all that pass it"),
        (_limit, "limit: what the busiest receiver gets; a node above it is red"),
    ):
        size = 52 + width(words)
        if x + size > wide and x > left:
            x, y = left, y + _ROW
        item = add(legend, "g", {"class": colour(0)})
        sample(item, x, y - 4)
        text(item, x + 40, y, words, "words")
        x += size
    text(
        legend,
        left,
        y + _ROW,
        "In a browser, rest the pointer on a path, an atom or a node: names, members and counts.",
        "quiet",
    )
    return y + _ROW


def _path(item: ET.Element, x: float, y: float) -> None:
    line(item, "path", x, x + 30, y)
    arrows(item, [x + 30], y)


def _transit(item: ET.Element, x: float, y: float) -> None:
    line(item, "path transit", x, x + 30, y)
    arrows(item, [x + 30], y)


def _atom(item: ET.Element, x: float, y: float, kind: str = "atom") -> None:
    mark = add(item, "g", {"class": f"sample {kind}"})
    middle = number(x + 16)
    add(mark, "path", {"class": "bar", "d": f"M{middle} {number(y - 6)}v12"})
    for index, dot in enumerate((y - 6, y + 6)):
        at = {"class": colour(index), "cx": middle, "cy": number(dot), "r": "2.6"}
        add(mark, "circle", at)


def _single(item: ET.Element, x: float, y: float) -> None:
    _atom(item, x, y, "atom single")


def _load(item: ET.Element, x: float, y: float) -> None:
    rectangle(item, "passes", (x, y - 4), (32, 8))
    rectangle(item, "orders", (x, y - 4), (22, 8))


def _limit(item: ET.Element, x: float, y: float) -> None:
    add(item, "path", {"class": "limit", "d": f"M{number(x + 16)} {number(y - 7)}v14"})
