"""An ordered channel between two endpoints of one process: a proxy that labels, one that orders.

Source: "In-Order Message Delivery" (2011): `ordered_label_beh`, `ordered_proxy_beh` and its
root with delayed messages. The text's own actors stand in `actors`; here the delayed
messages lie in a dictionary instead of a chain of actors. Where the text says nothing (a label that
was delivered already, a second copy, how much may be held), the words and bounds are those of the
discipline ``channel``: the first copy wins, and nothing goes without being counted.

Neither class is for several threads at once. A channel with epochs, gap policies and many senders
is what `channels` is for.
"""

from __future__ import annotations

import enum
import operator
from collections import Counter
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from sequencer.channels.rules import (
    CUSTOM_WINDOW_DEFAULT,
    WINDOW_DEFAULT,
    Rules,
    window_max,
)
from sequencer.labels import LABEL_MAX, Labels

HELD_DEFAULT = 10_000

M = TypeVar("M")
L = TypeVar("L")


class Sequence(Protocol[L]):
    """A label sequence by its initial label and next function (all that labelling needs)."""

    @property
    def initial(self) -> L:
        """The first label."""

    def next(self, label: L, /) -> L:
        """The label after ``label``; StopIteration or OverflowError where there is none."""


class LabelProxy(Generic[L, M]):
    """A proxy that attaches the next label to each message (`ordered_label_beh`).

    >>> from sequencer.labels import LinearLabels
    >>> label = LabelProxy(print, LinearLabels())
    >>> label("a")
    (0, 'a')
    >>> label("b")
    (1, 'b')
    """

    __slots__ = ("_labels", "_ordered", "label")

    def __init__(self, ordered: Callable[[tuple[L, M]], object], labels: Sequence[L]) -> None:
        self._ordered = ordered
        self._labels = labels
        self.label: L | None = labels.initial
        """The label of the next message; None once the sequence has ended."""

    def __call__(self, message: M) -> None:
        """Send ``(label, message)`` to the ordered destination.

        An error of the destination comes through, and says that it did not take the message: the
        next message gets the label. OverflowError where no label is left.

        If it may have taken the message, send the same one again: a copy is a duplicate there, but
        another message would be rejected as one. `OrderedProxy` takes a message, and then lets its
        delegate's error through.
        """
        label = self.label
        if label is None:
            raise OverflowError(
                "the label sequence has ended; the message was not sent. Go on with a cyclic "
                "sequence, or in a new channel or epoch"
            )
        following: L | None
        try:
            following = self._labels.next(label)
        except (StopIteration, OverflowError):
            following = None
        self.label = following  # before sending: the destination may send through this proxy
        try:
            self._ordered((label, message))
        except BaseException:
            if self.label == following:
                self.label = label
            raise


class Arrival(enum.Enum):
    """What became of a message that arrived at an :class:`OrderedProxy`.

    All but the first two are rejects: the message will not be delivered. Where several fit, the
    first of them is given.
    """

    DELIVERED = "delivered"
    HELD = "held"
    BAD_LABEL = "bad-label"
    """No label of the sequence (or of a custom one, too far ahead to be recognised)."""
    OUTSIDE_WINDOW = "outside-window"
    """Too far ahead; in a cycle, neither in the window ahead nor ever delivered."""
    CONFLICT = "conflict"
    """Its label is held by a different message: a label was used twice, the sender began again, or
    the cycle is shorter than what is in transit."""
    DUPLICATE = "duplicate"
    """Its label was delivered, or is held."""
    BUFFER_FULL = "buffer-full"


class OrderedProxy(Generic[M]):
    """A proxy that takes ``(label, message)`` in any order and delivers in label order.

    A label that never comes keeps everything behind it held, up to ``held_max`` messages and
    ``window`` labels ahead of the next one expected (for cyclic labels below half the cycle; by
    default 1,000,000, for custom labels 10,000, or what fits). ``rejects`` is called with label,
    message and :class:`Arrival` for what will not be delivered; ``rejected`` counts them.
    ``same`` says whether two messages of one label are copies.

    >>> from sequencer.labels import LinearLabels
    >>> proxy = OrderedProxy(print, LinearLabels())
    >>> for arrival in (3, "w"), (1, "y"), (2, "x"):
    ...     assert proxy(arrival) is Arrival.HELD
    >>> last = proxy((0, "z"))
    z
    y
    x
    w
    """

    __slots__ = (
        "_delegate",
        "_delivering",
        "_frontier",
        "_held",
        "_rejects",
        "_rules",
        "_same",
        "rejected",
    )

    def __init__(
        self,
        delegate: Callable[[M], object],
        labels: Labels,
        *,
        held_max: int = HELD_DEFAULT,
        window: int | None = None,
        rejects: Callable[[Any, M, Arrival], object] | None = None,
        same: Callable[[M, M], bool] = operator.eq,
    ) -> None:
        if window is None:
            default = CUSTOM_WINDOW_DEFAULT if labels.searched else WINDOW_DEFAULT
            window = min(default, window_max(labels.cycle))
        self._rules = Rules(labels=labels, held_max=held_max, window=window)
        self._delegate = delegate
        self._rejects = rejects
        self._same = same
        self._frontier = 0
        self._held: dict[int, M] = {}
        self._delivering = False
        self.rejected: Counter[Arrival] = Counter()

    @property
    def delivered(self) -> int:
        """How many messages were given to the delegate."""
        return self._frontier

    @property
    def held(self) -> int:
        """How many messages wait for a gap."""
        return len(self._held)

    @property
    def expected(self) -> int | str | None:
        """The label that is delivered next; None once the sequence has ended."""
        try:
            label = self._rules.labels.at(self._frontier)
        except IndexError:
            return None
        return None if isinstance(label, int) and label > LABEL_MAX else label

    def __call__(self, arrival: tuple[Any, M]) -> Arrival:
        """Take one labelled message; say what became of it.

        An error of the delegate comes through; its message counts as delivered, and those behind
        it go out with the next arrival. Called by the delegate itself, it holds the message, which
        goes out when the delegate has returned.
        """
        label, message = arrival
        rules = self._rules
        in_cycle = rules.labels.position(label, rules.search, self._frontier)
        position = self._rules.position(in_cycle, self._frontier)
        reason = self._judge(in_cycle, position, message)
        if reason is None:
            self._held[position] = message
        else:
            self.rejected[reason] += 1
            if self._rejects is not None:
                self._rejects(label, message, reason)
        self._deliver()
        return reason or (Arrival.DELIVERED if position < self._frontier else Arrival.HELD)

    def _judge(self, in_cycle: int, position: int, message: M) -> Arrival | None:
        """The first reason against the message, if there is one."""
        rules = self._rules
        if in_cycle < 0 or rules.is_beyond_search(position, self._frontier):
            return Arrival.BAD_LABEL
        if position < 0 or position - self._frontier > rules.window:
            return Arrival.OUTSIDE_WINDOW
        if position in self._held:
            copy = self._same(self._held[position], message)
            return Arrival.DUPLICATE if copy else Arrival.CONFLICT
        if position < self._frontier:
            return Arrival.DUPLICATE
        full = position != self._frontier and len(self._held) >= rules.held_max
        return Arrival.BUFFER_FULL if full else None

    def _deliver(self) -> None:
        """Deliver from the frontier up to the first missing label."""
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._frontier in self._held:
                message = self._held.pop(self._frontier)
                self._frontier += 1
                self._delegate(message)
        finally:
            self._delivering = False
