"""What a reader remembers of each key: repeats are dropped, holes and disorder are noted."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from threading import RLock

from streaming.clients.deliveries import ChangeNotice, Delivery
from streaming.clients.lines import LINES, Disorder, Hole, Line
from streaming.places import StreamPoint

KEYS_MAX = 1_000_000
CAUSES_MAX = 1_000
FAULTS_MAX = 10_000


@dataclass(slots=True)
class _Known:
    """What is remembered of one key: its last delivery's place, and its line.

    ``certain``: False once its partition was another reader's, perhaps: then what comes next may be
    behind deliveries which that one got.
    """

    last: StreamPoint
    line: Line
    certain: bool = True


class FollowedLines:
    """The keys of a reader (`OrderedConsumer`, which says what the arguments are)."""

    def __init__(
        self,
        discipline: str,
        resume: Callable[[Delivery], StreamPoint | None] | None,
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
        self._lock = RLock()
        self.holes: list[Hole] = []
        self.disorders: list[Disorder] = []

    def asked(self, delivery: Delivery) -> tuple[StreamPoint | None, bool]:
        """Return the last place of the delivery's key, by `resume` where it is not certain.

        And whether it is certain now. Changes nothing.
        """
        with self._lock:
            known = self._known.get(self._name(delivery))
        if (known is None or not known.certain) and self._resume is not None:
            return self._resume(delivery), True
        return (known.last, known.certain) if known else (None, False)

    def last(self, delivery: Delivery) -> StreamPoint | None:
        """Return the last place of the delivery's key that was noted."""
        with self._lock:
            known = self._known.get(self._name(delivery))
        return known.last if known else None

    def follow(self, delivery: Delivery, last: StreamPoint | None, certain: bool) -> bool:
        """Whether the delivery is behind ``last``; notes it, holes and disorder.

        What ``on_hole`` and ``on_disorder`` raise is raised when all of it is noted.
        """
        with self._lock:
            return self._follow(delivery, last, certain=certain)

    def doubt_key(self, delivery: Delivery) -> None:
        """Note that a delivery was handled while others read its partition."""
        with self._lock:
            known = self._known.get(self._name(delivery))
            if known is not None:
                known.certain = False
                known.line = LINES[self._discipline]()

    def set_back(self, delivery: Delivery, last: StreamPoint | None) -> None:
        """Note that a delivery was not handled after all: ``last`` is again what its key had last.

        Others read its partition now.
        """
        with self._lock:
            name = self._name(delivery)
            known = self._known.pop(name, None)
            if known is not None and last is not None:
                self._known[name] = _Known(last, LINES[self._discipline](), certain=False)

    def _name(self, delivery: Delivery) -> tuple[str, int, bytes | None]:
        return (delivery.topic, delivery.partition, self.channel_of(delivery))

    def channel_of(self, delivery: Delivery) -> bytes | None:
        """Return the channel of a delivery or notice: what its sequence counts."""
        return delivery.key if type(delivery) is ChangeNotice else self._channel(delivery)

    def _follow(self, delivery: Delivery, last: StreamPoint | None, *, certain: bool) -> bool:
        name = self._name(delivery)
        known = self._known.get(name)
        point = (delivery.incarnation, delivery.sequence)
        repeat = last is not None and point <= last
        if known is None or point[0] > known.last[0]:
            known = _Known(point, LINES[self._discipline]())
        known.last = last if repeat and last is not None else point
        known.certain = certain or not repeat
        self._known[name] = known
        self._known.move_to_end(name)
        if len(self._known) > KEYS_MAX:
            self._known.popitem(last=False)
        if repeat:
            return False
        self._note_cause((delivery.topic, name[2]), delivery.place)
        expected = point[1]
        if last is not None and certain:
            expected = last[1] + 1 if point[0] == last[0] else 0
        faults = [Disorder(delivery, what) for what in known.line.follow(delivery)]
        if point[1] > expected:
            self._note_hole(Hole(name[2], point[0], expected, point[1]))
        for fault in faults:
            self._note_disorder(fault)
        return True

    def handles(self, peer: bytes) -> frozenset[str]:
        """The nodes whose handles a peer holds."""
        with self._lock:
            return frozenset().union(
                *(known.line.handles for (_, _, name), known in self._known.items() if name == peer)
            )

    def released(self, peer: bytes, node: str) -> None:
        """Note that a peer gave a handle back."""
        with self._lock:
            for (_, _, name), known in self._known.items():
                if name == peer:
                    known.line.handles.discard(node)

    def places_read(self) -> list[str]:
        """Where the last delivery of each key lies, of those that were read last."""
        with self._lock:
            return list(self.causes.values())

    def doubt(self, revoked: Collection[tuple[str, int]]) -> None:
        """Others read these partitions from now on: their keys' places are at least what is known.

        Handles that a peer holds are not known any more.
        """
        with self._lock:
            for name, known in self._known.items():
                if name[:2] in revoked:
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
