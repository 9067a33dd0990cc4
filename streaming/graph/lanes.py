r"""The lane view of a channel: arrivals above, deliveries below, lines between.

    arrivals    0   2   3   1       in the order of the input
                |    \   \ /       a line that leans to the right waited
    deliveries  0     1  2  3       in the order of the output

A record that was rejected has a cross, one that is held an open ring.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from streaming.terminal import printable

COLUMN, MARGIN = 34.0, 24.0
TOP, BOTTOM, HEIGHT = 52.0, 172.0, 224.0
LABEL_CHARACTERS_MAX = 6


@dataclass(frozen=True, slots=True)
class Arrival:
    """A record of the input.

    ``fate``: "delivered", "rejected", "held", "command", "dropped" (a duplicate) or "unknown".

    ``why``: a reject's reason. ``link``: where a click leads.
    """

    place: str
    label: str
    epoch: str
    timestamp: int
    fate: str
    why: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A record of the output; ``arrival``: its row among the arrivals, None where it is older."""

    place: str
    label: str
    sequence: str
    arrival: int | None
    link: str = ""


def matched(
    arrivals: Sequence[tuple[str, str, str]],
    deliveries: Sequence[tuple[str, str, str]],
    rejects: Mapping[str, str],
    *,
    commands: Collection[str] = (),
    drops: bool = False,
) -> tuple[list[str], list[int | None]]:
    """Match arrivals (place, label, epoch) with deliveries (origin or "", label, epoch).

    ``rejects``: reasons by the input's place. Returns each arrival's fate, and the row of each
    delivery's arrival. Without a header `origin` the first arrival of a label in an epoch that was
    not rejected is the one that was delivered: as the first copy wins. ``commands``: the places of
    those that are no messages. ``drops``: other copies of a label were dropped.
    """
    by_place = {place: row for row, (place, _, _) in enumerate(arrivals)}
    by_label: dict[tuple[str, str], int] = {}
    for row, (place, label, epoch) in enumerate(arrivals):
        if place not in rejects and place not in commands:
            by_label.setdefault((label, epoch or "0"), row)
    rows = [
        by_place.get(origin) if origin else by_label.get((label, epoch or "0"))
        for origin, label, epoch in deliveries
    ]
    delivered = set(rows)
    copied = {(label, epoch or "0") for _, label, epoch in deliveries} if drops else set()
    fates = []
    for row, (place, label, epoch) in enumerate(arrivals):
        is_first = by_label.get((label, epoch or "0")) == row
        fates.append(
            "command"
            if place in commands
            else "rejected"
            if place in rejects
            else "delivered"
            if row in delivered
            else "dropped"
            if drops and ((label, epoch or "0") in copied or not is_first)
            else "held"
        )
    return fates, rows


def waited_for(rows: Sequence[int | None]) -> dict[int, int]:
    """Return, of arrivals that waited for a later one, the last such arrival.

    ``rows``: the arrival of each delivery, in the order of the deliveries. What is delivered before
    an arrival and came after it is what the arrival had to wait for.
    """
    waited: dict[int, int] = {}
    latest = -1
    for row in rows:
        if row is not None:
            if latest > row:
                waited[row] = latest
            latest = max(latest, row)
    return waited


def draw(arrivals: Sequence[Arrival], deliveries: Sequence[Delivery], name: str) -> str:
    """Return the lanes as SVG, sized by what is in them; colours come from the page's classes."""
    columns = max(len(arrivals), len(deliveries), 1)
    width = 2 * MARGIN + COLUMN * columns
    name = printable(name, kept="")
    root = ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "class": "lanes",
            "role": "group" if any(each.link for each in arrivals) else "img",
            "aria-label": f"{name}: {len(arrivals)} arrivals above, {len(deliveries)} deliveries "
            "below; the table under the picture has the same",
            "width": f"{width:g}",
            "height": f"{HEIGHT:g}",
            "viewBox": f"0 0 {width:g} {HEIGHT:g}",
        },
    )
    _text(root, MARGIN - 14, 16, "arrivals, in order", "lane-name")
    _text(root, MARGIN - 14, HEIGHT - 8, "deliveries, in order", "lane-name")
    for column, delivery in enumerate(deliveries):
        if delivery.arrival is not None:
            first, last = _x(delivery.arrival), _x(column)
            waited = "waited" if last > first else "straight"
            points = {"x1": first, "y1": TOP + 9, "x2": last, "y2": BOTTOM - 9}
            ET.SubElement(
                root,
                "line",
                {"class": f"way {waited}", **{key: f"{at:g}" for key, at in points.items()}},
            )
    for column, arrival in enumerate(arrivals):
        mark = _mark(root, _x(column), TOP, arrival.fate, arrival.link)
        what = f"{arrival.place}: label {arrival.label}, {arrival.fate} {arrival.why}".strip()
        ET.SubElement(mark, "title").text = printable(what, kept="")
        _text(mark, _x(column), TOP - 14, _cut(arrival.label), "lane-label")
    for column, delivery in enumerate(deliveries):
        mark = _mark(root, _x(column), BOTTOM, "delivered", delivery.link)
        what = f"{delivery.place}: label {delivery.label}, sequence {delivery.sequence}"
        ET.SubElement(mark, "title").text = printable(what, kept="")
        _text(mark, _x(column), BOTTOM + 24, _cut(delivery.label), "lane-label")
    return ET.tostring(root, encoding="unicode")


def _x(column: int) -> float:
    return MARGIN + COLUMN * (column + 0.5)


def _mark(root: ET.Element, x: float, y: float, fate: str, link: str) -> ET.Element:
    parent = ET.SubElement(root, "a", {"href": link}) if link else ET.SubElement(root, "g")
    box = {"x": x - COLUMN / 2, "y": y - 26, "width": COLUMN, "height": 54}
    hit = {"fill": "none", "pointer-events": "all"}  # the whole place can be clicked, or touched
    ET.SubElement(parent, "rect", {**{key: f"{at:g}" for key, at in box.items()}, **hit})
    if fate == "rejected":
        path = f"M{x - 6:g} {y - 6:g}l12 12m0 -12l-12 12"
        ET.SubElement(parent, "path", {"class": "mark rejected", "d": path})
    else:
        kind = fate if fate in ("delivered", "held") else "unknown"
        circle = {"class": f"mark {kind}", "cx": f"{x:g}", "cy": f"{y:g}", "r": "7"}
        ET.SubElement(parent, "circle", circle)
    return parent


def _text(root: ET.Element, x: float, y: float, words: str, kind: str) -> None:
    ET.SubElement(root, "text", {"x": f"{x:g}", "y": f"{y:g}", "class": kind}).text = printable(
        words, kept=""
    )


def _cut(label: str) -> str:
    return label if len(label) <= LABEL_CHARACTERS_MAX else "…" + label[-LABEL_CHARACTERS_MAX + 1 :]
