"""A picture of groups, atoms and sequencing nodes, as SVG without scripts.

What stands where is `layout`'s; the graph is `sequencer.groups.network.overview`'s, laid out by the
code that the service runs. All text is ASCII with character references, so that any terminal and
any file keeps it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from xml.etree import ElementTree as ET

from sequencer.groups.network.overview import Overview, overview
from sequencer.groups.network.placement import Load, node_path
from streaming.errors import ConfigError
from streaming.graph import layout as at
from streaming.graph.layout import Box, Dot, Lane, Layout, lay_out
from streaming.graph.legend import CSS, add_legend, highlights
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
    rectangle,
    text,
    title,
)
from streaming.graph.text import TITLE_NAME_MAX, count, counted, cut, listed, width

ATOMS_MAX = 10_000
BAR = 114.0
CHIP_GAP = 18.0


def draw(
    groups: Mapping[str, Collection[str]],
    nodes: int,
    messages: Mapping[str, int] | None,
    title: str,
) -> str:
    """An SVG document of the graph of a membership, on at most ``nodes`` nodes.

    ``messages`` are per group (one that is missing had none); None counts 1 for every group. Names
    may be any text. Equal arguments give equal text. ConfigError for more groups or atoms than a
    picture can show; ValueError for counts below 0, or no node.
    """
    return drawn(overview(groups, nodes, messages), title)


def drawn(view: Overview, name: str, link: Link = nowhere) -> str:
    """`draw` for an overview that is there already; ``link``: where a group's path leads."""
    if len(view.groups) > GROUPS_MAX or len(view.graph.atoms) > ATOMS_MAX:
        raise ConfigError(
            f"{counted(len(view.groups), 'group')} with {counted(len(view.graph.atoms), 'atom')} "
            f"cannot be read in a picture ({GROUPS_MAX:,} and {ATOMS_MAX:,} are the most).",
            "Nothing was drawn.",
            "Take the figures for programs instead: --json.",
        )
    layout = lay_out(view)
    wide = max(layout.right + at.MARGIN, WIDTH_MIN)
    root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "sequencing"})
    title(root, cut(name, TITLE_MAX))
    # Neighbours have different colours, so numbers follow the lanes.
    drawn_order = (*(lane.group for lane in layout.lanes), *view.ingress_only)
    numbers = {group: index for index, group in enumerate(drawn_order)}
    add(root, "style").text = CSS + highlights(len(numbers))
    background = add(root, "rect", {"class": "paper"})
    _head(root, view, name)
    for box, load in zip(layout.boxes, view.loads, strict=True):
        _node(root, view, layout, box, load)
    lanes = add(root, "g")
    for lane in layout.lanes:
        _group(linked(lanes, link(lane.group)), view, lane, numbers[lane.group])
    atoms = add(root, "g")
    for index, dot in enumerate(layout.dots):
        _atom(atoms, view, layout, dot, index, numbers)
    bottom = _ingress_only(root, view, wide, layout.bottom + 24, numbers, link)
    high = add_legend(root, at.MARGIN, bottom + 16, wide) + at.MARGIN
    return document(root, background, wide, high)


def summary(view: Overview) -> str:
    """The sizes in a line."""
    used = f"{len(view.loads):,} of {counted(view.nodes, 'node')}"
    return (
        f"{counted(len(view.groups), 'group')}, {counted(view.subscribers, 'subscriber')}, "
        f"{counted(len(view.graph.atoms), 'atom')} on {used}"
    )


def _head(root: ET.Element, view: Overview, name: str) -> None:
    text(root, at.MARGIN, 30, cut(name, TITLE_MAX), "name")
    caption = summary(view)
    if view.busiest:
        receiver = cut(view.busiest, at.NAME_MAX)
        caption += f"; the busiest receiver, {receiver}, gets {counted(view.limit, 'message')}"
    text(root, at.MARGIN, 48, caption, "quiet")
    if not view.counted:
        text(root, at.MARGIN, 63, "Every group counts as 1 message.", "quiet")


def _node(root: ET.Element, view: Overview, layout: Layout, box: Box, load: Load) -> None:
    """The box of a node, and its load on a scale that all nodes share."""
    atoms = [pair for pair, node in view.placed.items() if node == box.node]
    over = any(overload.node == box.node for overload in view.overloads)
    group = add(root, "g", {"class": "node over" if over else "node", "id": f"node-{box.node}"})
    ordered = sorted({name for pair in atoms for name in pair})
    title(
        group,
        f"node {box.node}: {counted(len(atoms), 'atom')}",
        f"orders {counted(load.ordering, 'message')} of {counted(len(ordered), 'group')}: "
        f"{listed(ordered)}",
        f"{counted(load.passing, 'message')} pass it, those it orders among them",
        f"the busiest receiver, {listed([view.busiest])}, gets {counted(view.limit, 'message')}",
    )
    corner, size = (box.left, at.TOP), (box.right - box.left, layout.bottom - at.TOP)
    rectangle(group, "box", corner, size).set("rx", "8")
    x, y = box.left + at.HEAD_PAD, at.TOP
    text(group, x, y + 20, f"node {box.node}", "strong")
    text(group, x + 64, y + 20, counted(len(atoms), "atom"), "quiet")
    most = max([view.limit, *(load.passing for load in view.loads)]) or 1.0
    for kind, messages in (("passes", load.passing), ("orders", load.ordering)):
        rectangle(group, kind, (x, y + 29), (BAR * messages / most, 8))
    limit = x + BAR * view.limit / most
    add(group, "path", {"class": "limit", "d": f"M{number(limit)} {number(y + 26)}v14"})
    text(group, x, y + 52, at.load_text(view, load), "load")
    text(group, x, y + 65, f"passes {count(load.passing)}", "quiet")


def _group(parent: ET.Element, view: Overview, lane: Lane, index: int) -> None:
    """The path of a group: dashed in nodes that only pass its messages on."""
    group = _group_mark(parent, view, lane.group, index)
    line(group, "hit", lane.start, lane.end, lane.y)
    for box, after in zip(lane.boxes, (*lane.boxes[1:], None), strict=True):
        kind = "path" if box.node in lane.stamping else "path transit"
        start = lane.start if box is lane.boxes[0] else box.left
        line(group, kind, start, lane.end if after is None else after.left, lane.y)
    gaps = [box.right + at.BOX_GAP / 2 for box in lane.boxes[:-1]]
    arrows(group, [*gaps, lane.end], lane.y)
    text(group, lane.start - 4, lane.y + 4, cut(lane.group, at.NAME_MAX), "label start")
    text(group, lane.end + 6, lane.y + 4, at.end_label(view, lane.group), "label count")


def _atom(
    parent: ET.Element,
    view: Overview,
    layout: Layout,
    dot: Dot,
    index: int,
    numbers: Mapping[str, int],
) -> None:
    """An atom: a dot on the lane of each of its groups, and a bar between them."""
    first, second = (numbers[name] for name in dot.pair)
    members = view.graph.atoms[dot.pair]
    single = len(members) < 2
    kind = "atom single" if single else "atom"
    atom = add(parent, "g", {"class": f"{kind} g{first} g{second}", "id": f"atom-{index}"})
    shared = f"{counted(len(members), 'subscriber')} in common: {listed(sorted(members))}"
    title(
        atom,
        f"{listed([dot.pair[0]])} + {listed([dot.pair[1]])}",
        shared + (" (a step of a ring of groups)" if single else ""),
        f"on node {view.placed[dot.pair]}",
        f"numbers {counted(sum(view.messages[name] for name in dot.pair), 'message')}",
    )
    top, bottom = min(dot.ys), max(dot.ys)
    bar = {"d": f"M{number(dot.x)} {number(top)}V{number(bottom)}"}
    add(atom, "path", {"class": "hit", **bar, "stroke-width": number(min(layout.column, 10))})
    add(atom, "path", {"class": "bar", **bar})
    for name, y in zip(dot.pair, dot.ys, strict=True):
        add(
            atom,
            "circle",
            {
                "class": colour(numbers[name]),
                "cx": number(dot.x),
                "cy": number(y),
                "r": number(min(max(layout.column * 0.36, 2.4), 4.5)),
            },
        )
    if layout.named:
        y = dot.top - 9
        label = text(atom, dot.x, y, at.atom_name(dot.pair), "atom-name")
        label.set("transform", f"rotate(-45 {number(dot.x)} {number(y)})")


def _group_mark(parent: ET.Element, view: Overview, group: str, index: int) -> ET.Element:
    """The element of a group, with its title."""
    mark = add(parent, "g", {"class": f"group g{index} {colour(index)}", "id": f"group-{index}"})
    members, path = view.groups[group], node_path(view.graph, view.placed, group)
    stamping = view.graph.stamping(group)
    nodes = sorted({view.placed[pair] for pair in stamping})
    lines = [
        f"{cut(group, TITLE_NAME_MAX)}: {counted(len(members), 'member')}",
        f"{counted(view.messages[group], 'message')}{'' if view.counted else ' (not counted)'}",
        "ingress only: shares no order with other groups",
    ]
    if stamping:
        atoms = counted(len(stamping), "atom")
        lines[2] = f"numbered by {atoms} on {_nodes(nodes)}"
        if passed := sorted(set(path) - set(nodes)):
            lines[2] += f", passed on by {_nodes(passed)}"
    title(mark, *lines, f"members: {listed(members)}" if members else "no members")
    return mark


def _nodes(nodes: Collection[int]) -> str:
    return f"node{'' if len(nodes) == 1 else 's'} {', '.join(map(str, nodes))}"


def _ingress_only(
    root: ET.Element,
    view: Overview,
    wide: float,
    top: float,
    numbers: Mapping[str, int],
    link: Link,
) -> float:
    """The groups without an atom, one after another in rows; returns where they end."""
    if not view.groups:
        text(root, at.MARGIN, top + 12, "There are no groups yet.", "quiet")
        return top + 12
    if not view.ingress_only:
        return top
    caption = (
        "Ingress only: no order with other groups to keep, their ingress numbers their messages"
    )
    text(root, at.MARGIN, top + 12, caption, "strong")
    x, y = at.MARGIN, top + 32
    for group in view.ingress_only:
        label = f"{cut(group, at.NAME_MAX)} {at.end_label(view, group)}"
        size = 34 + width(label) + CHIP_GAP
        if x + size > wide and x > at.MARGIN:
            x, y = at.MARGIN, y + at.LANE + 2
        mark = _group_mark(linked(root, link(group)), view, group, numbers[group])
        line(mark, "hit", x, x + size - CHIP_GAP, y - 4)
        line(mark, "path", x, x + 24, y - 4)
        arrows(mark, [x + 24], y - 4)
        text(mark, x + 34, y, label, "label")
        x += size
    return y
