"""What these pictures have in common: their look in light and dark, boxes, arrows."""

from __future__ import annotations

import math
from xml.etree import ElementTree as ET

from streaming.graph import marks

CSS = """
.seq { font: 13px "DejaVu Sans", Verdana, Arial, sans-serif; fill: #1e293b; }
.seq .paper { fill: #fff; }
.seq .box { fill: #f6f8fb; stroke: #64748b; stroke-width: 1.4; }
.seq .strong { font-weight: bold; }
.seq .small { font-size: 11px; fill: #475569; }
.seq .middle { text-anchor: middle; }
.seq .edge { stroke: #475569; stroke-width: 1.4; fill: none; }
.seq .tip { fill: #475569; }
.seq .in { fill: #0b66a8; } .seq .out { fill: #14772f; }
.seq .held { fill: #fff; stroke: #b8460a; stroke-width: 2; }
.seq .bad { stroke: #b5123a; stroke-width: 2.4; fill: none; }
.seq .way { stroke: #94a3b8; stroke-width: 1.3; fill: none; }
.seq .way.waited { stroke: #b8460a; stroke-width: 2; }
.seq .white { fill: #fff; font-weight: bold; } .seq .ink { fill: #fff; font-weight: bold; }
.seq .lane { stroke: #cbd5e1; stroke-width: 1.2; }
@media (prefers-color-scheme: dark) {
.seq { fill: #e2e8f0; } .seq .paper { fill: #15181b; }
.seq .box { fill: #1d2125; stroke: #94a3b8; } .seq .small { fill: #a8b4c4; }
.seq .edge { stroke: #a8b4c4; } .seq .tip { fill: #a8b4c4; }
.seq .in { fill: #6cb4ee; } .seq .out { fill: #6fce86; }
.seq .held { fill: #15181b; stroke: #f5935c; } .seq .bad { stroke: #ff9a91; }
.seq .way { stroke: #64748b; } .seq .way.waited { stroke: #f5935c; }
.seq .white { fill: #15181b; } .seq .lane { stroke: #343a40; }
}
"""


def picture(title: str, more: str = "") -> tuple[ET.Element, ET.Element]:
    """Begin a picture: its root and its background, which `marks.document` ends."""
    root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "seq", "role": "img"})
    marks.title(root, title)
    marks.add(root, "style").text = CSS + more
    return root, marks.add(root, "rect", {"class": "paper"})


def arrow(root: ET.Element, path: list[tuple[float, float]]) -> None:
    """Draw a line through points, with a tip at its end."""
    numbers = [f"{marks.number(x)} {marks.number(y)}" for x, y in path]
    marks.add(root, "path", {"class": "edge", "d": "M" + "L".join(numbers)})
    (x0, y0), (x, y) = path[-2:]
    angle = math.degrees(math.atan2(y - y0, x - x0))
    where = f"translate({marks.number(x)} {marks.number(y)}) rotate({marks.number(angle)})"
    marks.add(root, "path", {"class": "tip", "d": "M0 0l-9 -4.5v9z", "transform": where})


def lines(root: ET.Element, x: float, y: float, words: list[str], kind: str) -> None:
    """Write lines of text, one below another."""
    for row, each in enumerate(words):
        marks.text(root, x, y + 15 * row, each, kind)
