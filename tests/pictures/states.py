"""The life of a channel as a state machine, found by trying: every input in every state.

Nothing here says what leads where. A channel of `sequencer.channels.step` gets each input in each
state that it can be brought into, and what comes of it is noted; a new rule in the code is a new
line in the picture. Beside it stand the names of states and inputs, and places on the paper.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sequencer.channels import Arrivals, Rules, ShardState, Skip, step
from sequencer.channels.outcome import REASONS
from sequencer.labels import LinearLabels
from streaming.graph import marks
from tests.pictures.drawing import arrow, lines, picture

GAP_MS, RETIRE_MS = 1_000, 60_000
RULES = Rules(LinearLabels(), gap=Skip(GAP_MS), window=50, held_max=10, retire_after_ms=RETIRE_MS)
DEPTH = 5
Edges = dict[tuple[str, str], dict[str, set[str]]]
"""From state to state: inputs, each with what came of it."""


@dataclass(frozen=True)
class Input:
    """A record, or time that passes; ``label`` counts from the channel's next one."""

    name: str
    label: int = 0
    epoch: int = 0
    fin: bool = False
    pause_ms: int = 0


INPUTS = [
    Input("the next label"),
    Input("a label ahead", label=2),
    Input("FIN, with the next label", fin=True),
    Input("FIN, ahead", label=2, fin=True),
    Input("a higher epoch", epoch=1),
    Input("a lower epoch", epoch=-1),
    Input("a label that was delivered", label=-1),
    Input("gap.after passes", pause_ms=GAP_MS),
    Input("retire_after passes", pause_ms=RETIRE_MS),
]


def state_of(state: ShardState) -> str:
    """Name what a channel is in, from the columns of its state."""
    if not len(state):
        return "unknown"
    has_fin, holds = state.fin[0] >= 0, bool(len(state.held))
    if has_fin and state.frontier[0] > state.fin[0]:
        return "ended"
    if holds:
        return "waits, FIN known" if has_fin else "waits"
    return "open"


def edges() -> Edges:
    """Try every input in every state, to a depth; what was found."""
    found: Edges = {}
    # An epoch above 0, so that there is a lower one.
    seen = {"unknown": [(ShardState.empty(), 10 * RETIRE_MS)]}
    layer = [(ShardState.empty(), 10 * RETIRE_MS)]
    for _ in range(DEPTH):
        reached = []
        for state, now in layer:
            for each in INPUTS:
                then, at, outcome = _try(state, now, each)
                if outcome is None:
                    continue
                pair = state_of(state), state_of(then)
                found.setdefault(pair, {}).setdefault(each.name, set()).add(outcome)
                known = seen.setdefault(pair[1], [])
                if len(known) < 40 and not any(_is_same(then, other) for other, _ in known):
                    known.append((then, at))
                    reached.append((then, at))
        layer = reached
    return found


def _try(state: ShardState, now: int, given: Input) -> tuple[ShardState, int, str | None]:
    """Return the state after an input, the time then, and what came of it; None: it has no sense."""
    is_there = bool(len(state))
    now += given.pause_ms or 1
    if given.pause_ms:
        if not is_there or (given.pause_ms == RETIRE_MS and len(state.held)):
            return state, now, None  # gap.after would have passed before
        none = Arrivals(*(pa.array([], pa.binary()) for _ in range(3)), np.zeros(0, bool))
        after = step(state, none, now, RULES)
        return after.state, now, _told(after, row=None)
    frontier = int(state.frontier[0]) if is_there else 0
    epoch = int(state.epoch[0]) if is_there else 5
    label = given.label if given.epoch > 0 else frontier + given.label
    if label < 0 or (given.epoch and not is_there):
        return state, now, None
    texts = ([b"K"], [b"%d" % label], [b"%d" % (epoch + given.epoch)])
    record = Arrivals(*(pa.array(each, pa.binary()) for each in texts), np.array([given.fin]))
    after = step(state, record, now, RULES)
    return after.state, now, _told(after, row=len(state.held))


def _told(after: Any, row: int | None) -> str:
    """Say what came of an input: of the record in ``row``, and of the channel."""
    said = []
    if row is not None:
        if row in after.delivered.row:
            said.append("delivered")
        for at, reason in zip(after.rejected.row, after.rejected.reason, strict=True):
            said += [REASONS[reason]] if at == row else []
        said += ["held"] if not said else []
    said += [each.kind for each in after.events if each.kind not in ("fin", "epoch")]
    return ", ".join(dict.fromkeys(said)) or "nothing"


def _is_same(one: ShardState, other: ShardState) -> bool:
    def shape(state: ShardState) -> tuple[Any, ...]:
        frontier = int(state.frontier[0]) if len(state) else 0
        fin = int(state.fin[0]) - frontier if len(state) and state.fin[0] >= 0 else None
        held = [int(each) - frontier for each in state.held.position]
        return state_of(state), min(frontier, 2), fin, held, len(state.skipped)

    return shape(one) == shape(other)


PLACES = {
    "unknown": (24.0, 250.0),
    "open": (400.0, 56.0),
    "waits": (800.0, 56.0),
    "waits, FIN known": (800.0, 404.0),
    "ended": (400.0, 470.0),
}
WIDE, HIGH = 262.0, 164.0
APART, BADGE = 26.0, 9.0
MEANING = {
    "unknown": "nobody knows the channel",
    "open": "nothing is held",
    "waits": "records are held behind a gap",
    "waits, FIN known": "so are they, and the last label is known",
    "ended": "FIN was delivered",
}


def draw(found: Edges) -> str:
    """Draw states as boxes with the inputs that leave them as they are, the others as arrows."""
    root, paper = picture("The life of a channel: states, and what leads from one to another")
    marks.text(
        root, 24, 30, "The life of a channel, found by trying every input in every state", "strong"
    )
    leading = [pair for pair in sorted(found, key=_in_order) if pair[0] != pair[1]]
    for pair in leading:
        arrow(root, _ends(*pair))
    for name, (x, y) in PLACES.items():
        marks.rectangle(root, "box", (x, y), (WIDE, HIGH))
        marks.text(root, x + 10, y + 22, name, "strong")
        marks.text(root, x + 10, y + 39, MEANING[name], "small")
        lines(root, x + 10, y + 62, list(_told_edge(found.get((name, name), {}))), "small")
    for number, pair in enumerate(leading, 1):
        (x0, y0), (x, y) = _ends(*pair)
        at = x0 + (x - x0) * 0.3, y0 + (y - y0) * 0.3
        _badge(root, number, *at)
        row, column = (number - 1) % 8, (number - 1) // 8
        left, top = 34 + 390 * column, 670 + 21 * row
        _badge(root, number, left, top - 4)
        words = "; ".join(_told_edge(found[pair]))
        marks.text(root, left + 18, top, f"{pair[0]} → {pair[1]}: {words}", "small")
    return marks.document(root, paper, 1090, 840)


def _badge(root: Any, number: int, x: float, y: float) -> None:
    circle = {"class": "in", "cx": marks.number(x), "cy": marks.number(y), "r": "9"}
    marks.add(root, "circle", circle)
    marks.text(root, x, y + 4, str(number), "small middle white")


def _in_order(pair: tuple[str, str]) -> tuple[int, int]:
    names = list(PLACES)
    return names.index(pair[0]), names.index(pair[1])


def _told_edge(inputs: dict[str, set[str]]) -> Iterator[str]:
    order = [each.name for each in INPUTS]
    for name in sorted(inputs, key=order.index):
        yield f"{name}: {' or '.join(sorted(inputs[name]))}"


def _ends(one: str, other: str) -> list[tuple[float, float]]:
    """Where an arrow leaves one box and meets another; arrows to and fro are apart."""
    (x0, y0), (x1, y1) = (_middle(each) for each in (one, other))
    away = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
    shift = -(y1 - y0) / away * APART / 2, (x1 - x0) / away * APART / 2
    start, end = ((x + shift[0], y + shift[1]) for x, y in ((x0, y0), (x1, y1)))
    return [_border(one, start, end), _border(other, end, start)]


def _middle(name: str) -> tuple[float, float]:
    x, y = PLACES[name]
    return x + WIDE / 2, y + HIGH / 2


def _border(name: str, start: tuple[float, float], end: tuple[float, float]) -> tuple[float, float]:
    """Where the line from a point inside of a box crosses its border."""
    left, top = PLACES[name]
    (x0, y0), (x1, y1) = start, end
    parts = []
    if x1 != x0:
        parts.append(((left + WIDE if x1 > x0 else left) - x0) / (x1 - x0))
    if y1 != y0:
        parts.append(((top + HIGH if y1 > y0 else top) - y0) / (y1 - y0))
    part = min(parts)
    return x0 + (x1 - x0) * part, y0 + (y1 - y0) * part
