"""Small pictures for the overview and for disorder: lines and bars as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

WIDTH, HEIGHT = 220.0, 36.0
POINTS_MAX = 120
BAR, GAP, BARS_HEIGHT = 28.0, 10.0, 140.0


def line(values: Sequence[float], name: str) -> str:
    """Return a line of values over time, the newest at the right; its highest value fills it."""
    step = max(1, -(-len(values) // POINTS_MAX))
    points = [max(values[at : at + step]) for at in range(0, len(values), step)]
    root = _svg(WIDTH, HEIGHT, f"{name}: {points[-1] if points else 0:,.0f} now", "line-chart")
    if len(points) > 1:
        most = max(*points, 1.0)
        across = WIDTH / (len(points) - 1)
        path = " ".join(
            f"{at * across:.1f},{HEIGHT - 2 - value / most * (HEIGHT - 4):.1f}"
            for at, value in enumerate(points)
        )
        ET.SubElement(root, "polyline", {"points": path, "class": "curve"})
    return ET.tostring(root, encoding="unicode")


def bars(names: Sequence[str], counts: Sequence[int], marked: int | None, name: str) -> str:
    """Return a histogram; ``marked``: the bar behind which a line stands (today's setting)."""
    width = (BAR + GAP) * len(counts) + GAP
    root = _svg(width, BARS_HEIGHT + 44, name, "bars")
    most = max([*counts, 1])
    for at, (label, count) in enumerate(zip(names, counts, strict=True)):
        x, tall = GAP + at * (BAR + GAP), count / most * (BARS_HEIGHT - 20)
        tall = max(tall, 2.0) if count else 0.0
        box = {"x": x, "y": BARS_HEIGHT - tall, "width": BAR, "height": tall}
        drawn = {key: f"{value:.1f}" for key, value in box.items()}
        bar = ET.SubElement(root, "rect", {"class": "bar", **drawn})
        ET.SubElement(bar, "title").text = f"{label}: {count:,}"
        text = {"x": f"{x + BAR / 2:.1f}", "y": f"{BARS_HEIGHT + 14}", "class": "bar-name"}
        ET.SubElement(root, "text", text).text = label
    if marked is not None:
        right = f"{GAP / 2 + (marked + 1) * (BAR + GAP):.1f}"
        ends = {"x1": right, "x2": right, "y1": "0", "y2": f"{BARS_HEIGHT}"}
        ET.SubElement(root, "line", {"class": "marked", **ends})
    return ET.tostring(root, encoding="unicode")


def _svg(width: float, height: float, name: str, kind: str) -> ET.Element:
    return ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "class": kind,
            "role": "img",
            "aria-label": name,
            "width": f"{width:g}",
            "height": f"{height:g}",
            "viewBox": f"0 0 {width:g} {height:g}",
        },
    )
