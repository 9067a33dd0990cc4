"""The elements that pictures are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from xml.etree import ElementTree as ET

from streaming.graph.text import printable

GROUPS_MAX = 2_000
TITLE_MAX = 100
WIDTH_MIN = 860.0
COLOURS = (
    "#0b66a8",
    "#b8460a",
    "#14772f",
    "#a3187c",
    "#6237c9",
    "#0c6f68",
    "#8f5a03",
    "#b5123a",
    "#475569",
    "#46700d",
)
"""Those of groups, in turn; each can be read on white."""

DARK_COLOURS = (
    "#6cb4ee",
    "#f5935c",
    "#6fce86",
    "#ea82cf",
    "#b39bf5",
    "#5fc9c0",
    "#dfb15b",
    "#f58aa3",
    "#a8b4c4",
    "#a9cf66",
)
"""The same where the page is dark."""


def add(parent: ET.Element, tag: str, attributes: Mapping[str, str] | None = None) -> ET.Element:
    """A new element below another one."""
    return ET.SubElement(parent, tag, dict(attributes or {}))


Link = Callable[[str], str]
"""Returns the address that the mark of a group leads to; empty for none."""


def nowhere(_group: str) -> str:
    """A picture without links."""
    return ""


def linked(parent: ET.Element, address: str) -> ET.Element:
    """Return where a mark has to be so that it leads to an address; the parent for an empty one."""
    return add(parent, "a", {"href": address, "target": "_top"}) if address else parent


def number(value: float) -> str:
    """A coordinate, to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


def colour(index: int) -> str:
    """The class with the colour of the group with this index."""
    return f"c{index % len(COLOURS)}"


def title(parent: ET.Element, *lines: str) -> None:
    """What is shown when the pointer rests on an element."""
    add(parent, "title").text = "\n".join(map(printable, lines))


def text(parent: ET.Element, x: float, y: float, words: str, kind: str) -> ET.Element:
    """A line of text that begins (or, by its class, ends) at x and stands on y."""
    mark = add(parent, "text", {"class": kind, "x": number(x), "y": number(y)})
    mark.text = printable(words)
    return mark


def line(parent: ET.Element, kind: str, start: float, end: float, y: float) -> None:
    """A horizontal line."""
    path = f"M{number(start)} {number(y)}H{number(end)}"
    add(parent, "path", {"class": kind, "d": path})


def arrows(parent: ET.Element, xs: Iterable[float], y: float) -> None:
    """Arrowheads that point to the right, their tips a little after each x."""
    heads = "".join(f"M{number(x - 4)} {number(y - 3.5)}l8 3.5l-8 3.5z" for x in xs)
    add(parent, "path", {"class": "arrow", "d": heads})


def rectangle(
    parent: ET.Element, kind: str, corner: tuple[float, float], size: tuple[float, float]
) -> ET.Element:
    """A rectangle: its left upper corner, its width and height."""
    places = dict(zip(("x", "y", "width", "height"), map(number, (*corner, *size)), strict=True))
    return add(parent, "rect", {"class": kind, **places})


def document(root: ET.Element, background: ET.Element, wide: float, high: float) -> str:
    """The picture as text, now that its size is known."""
    for element in (root, background):
        element.set("width", number(wide))
        element.set("height", number(high))
    root.set("viewBox", f"0 0 {number(wide)} {number(high)}")
    ET.indent(root, " ")
    plain: bytes = ET.tostring(root, encoding="us-ascii", xml_declaration=False)
    return plain.decode() + "\n"
