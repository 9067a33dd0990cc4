"""A machine that may crash: its state, what of it is written down, and what waits for that.

Between two commits a machine changes its state, and keeps back all that anybody else could see:
frames, acknowledgments, deliveries. A commit writes the state down and lets them go. So what a
crash takes away, nobody has seen, and what was seen is there after the restart.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from sequencer.groups.network.atoms import ViewAtom
from sequencer.groups.network.links import Input, Output
from sequencer.groups.network.membership import GroupIngress, Subscriber
from sequencer.groups.network.ordering import Receiver

Key = tuple[Any, ...]


@dataclass(slots=True)
class Machine:
    """`parts` of the state by key, what is `durable` of them, and the `effects` of a commit.

    `life` counts crashes: what was planned in an earlier life does not happen. `committing` says
    that a commit is planned, `armed` to which machines something will be sent again if need be.
    """

    name: str
    parts: dict[Key, Any] = field(default_factory=dict)
    durable: dict[Key, Any] = field(default_factory=dict)
    changed: dict[Key, None] = field(default_factory=dict)
    effects: list[Callable[[], None]] = field(default_factory=list)
    up: bool = True
    life: int = 0
    committing: bool = False
    armed: set[str] = field(default_factory=set)

    def part(self, key: Key, new: Callable[[], Any]) -> Any:
        """A part that is going to change; a new one if there is none yet."""
        if key not in self.parts:
            self.parts[key] = new()
        self.changed[key] = None
        return self.parts[key]

    def drop(self, key: Key) -> None:
        """Forget a part that no one needs any more."""
        del self.parts[key]
        self.changed[key] = None

    def commit(self, *, write: bool) -> None:
        """Write down what has changed (if crashes are possible at all), and let effects happen."""
        if write:
            for key in self.changed:
                if key in self.parts:
                    self.durable[key] = copied(self.parts[key])
                else:
                    self.durable.pop(key, None)
        self.changed.clear()
        effects, self.effects = self.effects, []
        for effect in effects:
            effect()

    def crash(self) -> int:
        """Lose all that is not written down; returns how many effects never happened."""
        undone = len(self.effects)
        self.up = self.committing = False
        self.life += 1
        self.armed.clear()
        self.parts.clear()
        self.changed.clear()
        self.effects.clear()
        return undone

    def restart(self) -> None:
        """Go on from what is written down."""
        self.up = True
        self.parts = {key: copied(part) for key, part in self.durable.items()}


def copied(part: Any) -> Any:
    """A part that shares no changing state with the old one. TypeError for unknown kinds."""
    new = copy(part)
    match new:
        case Output():
            new.waiting = {number: copy(one) for number, one in part.waiting.items()}
        case Input():
            new.early = dict(part.early)
        case GroupIngress():
            new.ingress, new.first = copy(part.ingress), dict(part.first)
        case ViewAtom():
            new.atom = copy(part.atom)
            new.following, new.previous = dict(part.following), dict(part.previous)
            new.early = list(part.early)
        case Receiver():
            new.next_number, new.next_stamp = dict(part.next_number), dict(part.next_stamp)
            new.held = {group: dict(messages) for group, messages in part.held.items()}
            new.ended = set(part.ended)
        case Subscriber():
            new.unended, new.receiver = set(part.unended), copied(part.receiver)
            new.later = {view: dict(messages) for view, messages in part.later.items()}
        case set():
            pass
        case _:
            raise TypeError(f"{type(part).__name__} is no part of a machine: nothing was copied")
    return new
