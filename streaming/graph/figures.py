"""A few figures as bars, beside each other: rates, times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

STYLE = """
svg { font: 12px "DejaVu Sans", Verdana, sans-serif; }
.paper { fill: #fff; } .bar { fill: #94a3b8; } .bar.first { fill: #1f5fa8; }
text { fill: #334155; } .name { text-anchor: end; } .title { font-weight: 700; }
@media (prefers-color-scheme: dark) {
.paper { fill: #15181b; } .bar { fill: #64748b; } .bar.first { fill: #82b4f0; }
text { fill: #cbd5e1; } }
"""
WIDTH, NAMES, BARS = 640.0, 170.0, 300.0
"""The picture's width, that of the names at its left, and that of the longest bar."""
ROW, BAR, MARGIN = 26.0, 16.0, 14.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one unit: each with its name and as text; ``values`` are not negative.

    The first is the one that it is about; bars are in proportion to the highest.
    """

    title: str
    names: Sequence[str]
    values: Sequence[float]
    texts: Sequence[str]


def draw(groups: Sequence[Figures]) -> str:
    """Return an SVG document with the figures of each unit, one below another."""
    high = 2 * MARGIN + ROW * sum(1 + len(each.names) for each in groups)
    size = {"width": f"{WIDTH:g}", "height": f"{high:g}"}
    namespace = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {WIDTH:g} {high:g}"}
    said = "; ".join(_said(each) for each in groups)
    root = ET.Element("svg", {**namespace, **size, "role": "img", "aria-label": said})
    ET.SubElement(root, "style").text = STYLE
    ET.SubElement(root, "rect", {"class": "paper", **size})
    y = MARGIN
    for each in groups:
        _text(root, MARGIN, y + ROW / 2, each.title, "title")
        y += ROW
        most = max(each.values, default=0) or 1
        for at, (name, value, text) in enumerate(
            zip(each.names, each.values, each.texts, strict=True)
        ):
            wide = value / most * BARS
            box = {"x": NAMES, "y": y + (ROW - BAR) / 2, "width": wide, "height": BAR}
            kind = {"class": "bar first" if at == 0 else "bar"}
            ET.SubElement(root, "rect", {**kind, **{key: f"{n:g}" for key, n in box.items()}})
            _text(root, NAMES - 8, y + ROW / 2, name, "name")
            _text(root, NAMES + wide + 8, y + ROW / 2, text, "figure")
            y += ROW
    return ET.tostring(root, encoding="unicode") + "\n"


def _said(figures: Figures) -> str:
    pairs = zip(figures.names, figures.texts, strict=True)
    return f"{figures.title}: " + ", ".join(f"{name} {text}" for name, text in pairs)


def _text(root: ET.Element, x: float, y: float, text: str, kind: str) -> None:
    place = {"x": f"{x:g}", "y": f"{y:g}", "dominant-baseline": "central", "class": kind}
    ET.SubElement(root, "text", place).text = text
