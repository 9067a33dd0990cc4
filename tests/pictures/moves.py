"""An animation, and the same as steps, of a recorded run: arrivals above, each reader's stream below.

A message appears where it arrived, waits there as a ring where it is held, and moves to each place
in which it was delivered; one that was rejected gets a cross. CSS moves it, so that a page may show
it as an image; who wants no movement sees the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree as ET

from streaming.graph import marks
from tests.pictures.drawing import picture

COLUMN, LANE, LEFT, TOP, SAID = 54.0, 44.0, 110.0, 84.0, 58.0
STEP_SECONDS, REST_SECONDS = 2.0, 2.5
COLOURS = ("#0b66a8", "#b8460a", "#14772f", "#6237c9")
TITLES = {
    "channel": "A channel: labels put in order",
    "label": "Labels: each channel's records, counted as they arrive",
    "group": "Groups: G0 = A, B, C and G1 = B, C, D",
    "multicast": "A multicast: any sender, any peers, one order",
}


@dataclass
class Message:
    """Where a message arrives (``column``), when, and what came of it: lane and column, and when.

    ``label``: the one that it got on its way.
    """

    text: str
    what: str
    column: int
    step: int
    colour: str
    ways: list[tuple[int, int, int]] = field(default_factory=list)
    rejected: int | None = None
    label: str = ""


def messages(steps: Sequence[Mapping[str, Any]]) -> tuple[list[Message], list[str]]:
    """Return what a recorded story moved, and the names of the streams it went to."""
    lanes = sorted({key for step in steps for key in step["delivered"]})
    found: list[Message] = []
    senders: dict[str, str] = {}
    ends = dict.fromkeys(lanes, 0)
    for number, step in enumerate(steps):
        for each in step["sent"]:
            sender = each["what"].partition(" ")[0]
            colour = senders.setdefault(sender, COLOURS[len(senders) % len(COLOURS)])
            found.append(Message(each["id"], each["what"], len(found), number, colour))
        for lane in lanes:
            for text in step["delivered"].get(lane, []):
                first = next(each for each in found if each.text == text)
                first.ways.append((lanes.index(lane), ends[lane], number))
                ends[lane] += 1
        for text, label in step.get("labels", {}).items():
            next(each for each in found if each.text == text).label = f"label {label}"
        for text in step["rejected"]:
            last = next(each for each in reversed(found) if each.text == text)
            last.rejected = number
    return found, lanes


def animated(name: str, steps: Sequence[Mapping[str, Any]]) -> str:
    """Return the story as one picture that moves."""
    found, lanes = messages(steps)
    whole = len(steps) * STEP_SECONDS + REST_SECONDS
    rules: list[str] = []
    root, paper = picture(TITLES[name])
    marks.text(root, 24, 30, TITLES[name], "strong")
    _frame(root, name, lanes, len(found))
    for number, step in enumerate(steps):
        text = marks.text(root, 24, SAID, step["said"], f"said s{number}")
        text.set("style", "opacity:0" if number < len(steps) - 1 else "")
        rules.append(_shown(f"s{number}", number, number + 1, len(steps), whole))
    for each in found:
        _moving(root, each, rules, whole)
    style = root.find("style")
    assert style is not None
    style.text = f"{style.text}{''.join(rules)}{STILL}"
    return marks.document(root, paper, _wide(len(found)), _high(lanes))


STILL = "@media (prefers-reduced-motion: reduce) { .seq * { animation: none !important; } }\n"


def stepped(name: str, steps: Sequence[Mapping[str, Any]]) -> str:
    """Return the story as one picture below another, a step each."""
    found, lanes = messages(steps)
    root, paper = picture(TITLES[name])
    high = _high(lanes) - 26
    marks.text(root, 24, 30, TITLES[name], "strong")
    for number, step in enumerate(steps):
        group = marks.add(root, "g", {"transform": f"translate(0 {marks.number(high * number)})"})
        _frame(group, name, lanes, len(found))
        marks.text(group, 24, SAID, f"{number + 1}. {step['said']}", "strong")
        for each in found:
            _standing(group, each, number)
    return marks.document(root, paper, _wide(len(found)), high * len(steps) + 20)


def _wide(columns: int) -> float:
    return max(LEFT + COLUMN * (columns + 0.5), 680)


def _high(lanes: Sequence[str]) -> float:
    return TOP + LANE * (len(lanes) + 1) + 40


def _frame(root: ET.Element, name: str, lanes: Sequence[str], columns: int) -> None:
    right = LEFT + COLUMN * columns
    for row, lane in enumerate(["arrivals", *lanes]):
        y = _y(row)
        marks.line(root, "lane", LEFT - 10, right, y)
        to = {"channel": "deliveries", "label": f"channel {lane}"}.get(name, f"to {lane}")
        text = to if row else lane
        marks.text(root, 24, y + 4, text, "small")


def _x(column: int) -> float:
    return LEFT + COLUMN * (column + 0.4)


def _y(row: int) -> float:
    return TOP + LANE * (row + 0.5) + (16 if row else 0)


def _dot(parent: ET.Element, each: Message, x: float, y: float, kind: str) -> None:
    style = f"fill:{each.colour}" if kind != "held" else ""
    circle = {"cx": marks.number(x), "cy": marks.number(y), "r": "13", "class": kind}
    marks.add(parent, "circle", {**circle, **({"style": style} if style else {})})
    marks.text(parent, x, y + 4, each.text, "middle " + ("" if kind == "held" else "ink"))


def _delivered(parent: ET.Element, each: Message, x: float, y: float) -> None:
    _dot(parent, each, x, y, "")
    if each.label:
        marks.text(parent, x, y + 25, each.label, "small middle")


def _cross(parent: ET.Element, each: Message) -> None:
    x, y = _x(each.column), _y(0)
    path = f"M{marks.number(x + 11)} {marks.number(y - 18)}l8 8m0 -8l-8 8"
    marks.add(parent, "path", {"class": "bad", "d": path})


def _standing(root: ET.Element, each: Message, step: int) -> None:
    """Draw a message as it stands after a step."""
    if each.step > step:
        return
    mark = marks.add(root, "g")
    marks.title(mark, each.what)
    gone = [way for way in each.ways if way[2] <= step]
    for lane, column, _ in gone:
        ends = {"x1": _x(each.column), "y1": _y(0), "x2": _x(column), "y2": _y(lane + 1)}
        waited = " waited" if column > each.column else ""
        marks.add(
            mark, "line", {"class": f"way{waited}", **{k: marks.number(v) for k, v in ends.items()}}
        )
    _dot(mark, each, _x(each.column), _y(0), "" if gone else "held")
    for lane, column, _ in gone:
        _delivered(mark, each, _x(column), _y(lane + 1))
    if each.rejected is not None and each.rejected <= step:
        _cross(mark, each)


def _moving(root: ET.Element, each: Message, rules: list[str], whole: float) -> None:
    """Draw a message that appears, waits, and moves to each of its places."""
    begin = each.step * STEP_SECONDS
    name = f"m{each.column}"
    mark = marks.add(root, "g", {"class": name})
    marks.title(mark, each.what)
    waits = each.ways[0][2] > each.step if each.ways else True
    _dot(mark, each, _x(each.column), _y(0), "held" if waits else "")
    if waits and each.ways:
        freed = marks.add(root, "g", {"class": f"{name}f"})
        _dot(freed, each, _x(each.column), _y(0), "")
        at = each.ways[0][2] * STEP_SECONDS + 0.4
        rules.append(_appears(f"{name}f", 100 * at / whole, whole))
    if each.rejected is not None:
        _cross(mark, each)
    percent = 100 * (begin + 0.1) / whole
    rules.append(_appears(name, percent, whole))
    for number, (lane, column, step) in enumerate(each.ways):
        start = step * STEP_SECONDS + (1.0 if step == each.step else 0.5)
        copy = marks.add(root, "g", {"class": f"{name}w{number}"})
        _delivered(copy, each, _x(column), _y(lane + 1))
        dx, dy = _x(each.column) - _x(column), _y(0) - _y(lane + 1)
        at, end = 100 * start / whole, 100 * (start + 0.7) / whole
        moved = f"transform:translate({marks.number(dx)}px,{marks.number(dy)}px)"
        rules.append(
            f"@keyframes {name}w{number} {{ 0%,{at:.2f}% {{ opacity:0; {moved} }} "
            f"{at + 0.01:.2f}% {{ opacity:1; {moved} }} {end:.2f}%,100% {{ opacity:1; "
            f"transform:none }} }}\n.{name}w{number} "
            f"{{ animation: {name}w{number} {whole:g}s ease-in-out infinite }}\n"
        )


def _appears(name: str, percent: float, whole: float) -> str:
    return (
        f"@keyframes {name} {{ 0%,{percent:.2f}% {{ opacity:0 }} {percent + 1.5:.2f}%,100% "
        f"{{ opacity:1 }} }}\n.{name} {{ animation: {name} {whole:g}s linear infinite }}\n"
    )


def _shown(name: str, first: int, stop: int, steps: int, whole: float) -> str:
    begin = 100 * first * STEP_SECONDS / whole
    end = 100.0 if stop == steps else 100 * stop * STEP_SECONDS / whole
    before = "" if not begin else f"0%,{begin:.2f}% {{ opacity:0 }} "
    after = "" if end == 100 else f"{end + 0.01:.2f}%,100% {{ opacity:0 }} "
    shown = f"{begin + 0.01:.2f}%,{end:.2f}% {{ opacity:1 }} "
    return (
        f"@keyframes {name} {{ {before}{shown}{after}}}\n"
        f".{name} {{ animation: {name} {whole:g}s linear infinite }}\n"
    )
