"""Histograms of disorder for people: as text in a terminal, and as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from streaming.arrow.histograms import BOUNDS, DISPLACED, LATE_MS, WAITED_MS
from streaming.graph import charts

TITLES = {
    DISPLACED: "how many labels behind the highest one messages came",
    LATE_MS: "how late messages came",
    WAITED_MS: "how long they waited",
}
BAR_MAX = 40
STYLE = """
svg { font: 9px "DejaVu Sans", Verdana, sans-serif; }
.paper { fill: #fff; } .bar { fill: #1f5fa8; } .bar-name, .title { fill: #475569; }
.bar-name { text-anchor: middle; } .title { font-size: 12px; }
.marked { stroke: #b3261e; stroke-width: 2; stroke-dasharray: 4 3; }
@media (prefers-color-scheme: dark) {
.paper { fill: #15181b; } .bar { fill: #82b4f0; } .bar-name, .title { fill: #a2a9b0; }
.marked { stroke: #ff9a91; } }
"""
MARGIN, TITLE_HEIGHT = 14.0, 26.0


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts by bucket, messages in order left out; ``marked``: behind which one a setting lies."""

    title: str
    names: Sequence[str]
    counts: Sequence[int]
    marked: int | None = None


def histogram(
    kind: str, histograms: Mapping[str, Sequence[int]], setting: int | None = None
) -> Histogram:
    """Return one of a pipeline's histograms; ``setting``: the gap time (ms) or buffer of today."""
    bounds = BOUNDS[kind]
    *counts, _ = histograms.get(kind) or [0] * (len(bounds) + 2)
    name = short_count if kind == DISPLACED else short_time
    below = None if setting is None else sum(0 < bound < setting for bound in bounds)
    return Histogram(TITLES[kind], [*map(name, bounds[1:]), "more"], counts[1:], below)


def short_count(number: int) -> str:
    """Return a number as short text."""
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if number >= 10_000 and number % unit == 0:
            return f"{number // unit}{name}"
    return f"{number:,}"


def short_time(ms: int) -> str:
    """Return a time as short text."""
    for unit, name in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if ms >= unit and ms % unit == 0:
            return f"{ms // unit} {name}"
    return f"{ms} ms"


def as_text(shown: Histogram) -> list[str]:
    """Return lines with bars, from the first filled bucket to the last; empty where none is filled.

    An arrow marks the bucket in which the setting lies, also where it lies outside of them.
    """
    filled = [at for at, count in enumerate(shown.counts) if count]
    if not filled:
        return []
    most = max(shown.counts)
    rows = set(range(filled[0], filled[-1] + 1))
    if shown.marked is not None:
        rows.add(shown.marked)
    lines = []
    for at in sorted(rows):
        count = shown.counts[at]
        bar = "█" * max(round(count / most * BAR_MAX), 1 if count else 0)
        mark = "  ← today's setting" if at == shown.marked else ""
        lines.append(f"{shown.names[at]:>9}  {bar} {count:,}{mark}")
    return lines


def as_svg(shown: Sequence[Histogram]) -> str:
    """Return a document with histograms, one below another."""
    root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg"})
    ET.SubElement(root, "style").text = STYLE
    paper = ET.SubElement(root, "rect", {"class": "paper"})
    y, wide = MARGIN, 0.0
    for each in shown:
        words = {"x": f"{MARGIN:g}", "y": f"{y + 12:g}", "class": "title"}
        ET.SubElement(root, "text", words).text = each.title
        drawn = charts.bars(each.names, each.counts, each.marked, each.title)
        chart = ET.fromstring(drawn)  # noqa: S314  (our own)
        chart.attrib |= {"x": f"{MARGIN:g}", "y": f"{y + TITLE_HEIGHT:g}"}
        root.append(chart)
        wide = max(wide, float(chart.attrib["width"]) + 2 * MARGIN)
        y += TITLE_HEIGHT + float(chart.attrib["height"])
    size = {"width": f"{wide:g}", "height": f"{y + MARGIN:g}"}
    root.attrib |= {**size, "viewBox": f"0 0 {wide:g} {y + MARGIN:g}"}
    paper.attrib |= size
    return ET.tostring(root, encoding="unicode") + "\n"
