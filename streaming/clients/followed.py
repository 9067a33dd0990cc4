"""What a reader remembers of each key: repeats are dropped, holes and disorder are noted."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass

from streaming.clients.deliveries import ChangeNotice, Delivery
from streaming.clients.lines import LINES, Disorder, Hole, Line

KEYS_MAX = 1_000_000
CAUSES_MAX = 1_000
FAULTS_MAX = 10_000

Place = tuple[int, int]
"""Incarnation and sequence."""


@dataclass(slots=True)
class _Known:
    """What is remembered of one key: its last delivery's place, and its line.

    ``certain``: False once its partition was another reader's, perhaps: then what comes next may be
    behind deliveries which that one got.
    """

    last: Place
    line: Line
    certain: bool = True


class FollowedLines:
    """The keys of a reader (`OrderedConsumer`, which says what the arguments are)."""

    def __init__(
        self,
        discipline: str,
        resume: Callable[[Delivery], Place | None] | None,
        on_hole: Callable[[Hole], None] | None,
        on_disorder: Callable[[Disorder], None] | None,
        channel: Callable[[Delivery], bytes | None],
    ) -> None:
        self._discipline = discipline
        self._resume = resume
        self._on_hole = on_hole
        self._on_disorder = on_disorder
        self._channel = channel
        self._known: OrderedDict[tuple[str, int, bytes | None], _Known] = OrderedDict()
        self.causes: OrderedDict[tuple[str, bytes | None], str] = OrderedDict()
        self.holes: list[Hole] = []
        self.disorders: list[Disorder] = []

    def is_next(self, delivery: Delivery) -> bool:
        """Whether the delivery is no repeat; notes holes and disorder."""
        channel = self._channel(delivery) if type(delivery) is not ChangeNotice else delivery.key
        name = (delivery.topic, delivery.partition, channel)
        known = self._known.pop(name, None)
        last = known.last if known else None
        certain = known is not None and known.certain
        if not certain and self._resume is not None:
            last, certain = self._resume(delivery), True
        here = (delivery.incarnation, delivery.sequence)
        repeat = last is not None and here <= last
        if known is None or here[0] > known.last[0]:
            known = _Known(here, LINES[self._discipline]())
        known.last = last if repeat and last is not None else here
        known.certain = certain or not repeat
        self._known[name] = known
        if len(self._known) > KEYS_MAX:
            self._known.popitem(last=False)
        if repeat:
            return False
        expected = here[1]
        if last is not None and certain:
            expected = last[1] + 1 if here[0] == last[0] else 0
        if here[1] > expected:
            self._note_hole(Hole(channel, here[0], expected, here[1]))
        for what in known.line.follow(delivery):
            self._note_disorder(Disorder(delivery, what))
        self._note_cause((delivery.topic, channel), delivery.place)
        return True

    def handles(self, peer: bytes) -> frozenset[str]:
        """The nodes whose handles a peer holds."""
        return frozenset().union(
            *(known.line.handles for (_, _, name), known in self._known.items() if name == peer)
        )

    def released(self, peer: bytes, node: str) -> None:
        """Note that a peer gave a handle back."""
        for (_, _, name), known in self._known.items():
            if name == peer:
                known.line.handles.discard(node)

    def doubt(self, gone: Collection[tuple[str, int]]) -> None:
        """Others read these partitions from now on: their keys' places are at least what is known.

        Handles that a peer holds are not known any more.
        """
        for name, known in self._known.items():
            if name[:2] in gone:
                known.certain = False
                known.line = LINES[self._discipline]()

    def _note_hole(self, hole: Hole) -> None:
        self.holes.append(hole)
        del self.holes[:-FAULTS_MAX]
        if self._on_hole is not None:
            self._on_hole(hole)

    def _note_disorder(self, disorder: Disorder) -> None:
        self.disorders.append(disorder)
        del self.disorders[:-FAULTS_MAX]
        if self._on_disorder is not None:
            self._on_disorder(disorder)

    def _note_cause(self, name: tuple[str, bytes | None], place: str) -> None:
        self.causes[name] = place
        self.causes.move_to_end(name)
        if len(self.causes) > CAUSES_MAX:
            self.causes.popitem(last=False)
