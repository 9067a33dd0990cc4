"""Both ends of one ordered channel, in process: a proxy that labels and a proxy that orders.

Source: "In-Order Message Delivery" (2011): `ordered_label_beh` and `ordered_proxy_beh` with its
root and its chain of delayed messages. The chain is a dictionary here: the text calls the way of
tracking delayed messages an implementation detail.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

L = TypeVar("L", bound=Hashable)
M = TypeVar("M")
HELD_MAX = 10_000


class Sequence(Protocol[L]):
    """What both ends agree on: the initial label and the next function."""

    @property
    def initial(self) -> L:
        """The first message's label."""

    def next(self, label: L) -> L:
        """The label after ``label``."""


class LabelProxy(Generic[L, M]):
    """Attaches the next label to each message and sends it on.

    >>> from sequencer import LinearLabels
    >>> sent = []
    >>> proxy = LabelProxy(lambda label, message: sent.append((label, message)), LinearLabels())
    >>> proxy("a"), proxy("b")
    (0, 1)
    >>> sent
    [(0, 'a'), (1, 'b')]
    """

    __slots__ = ("_ordered", "_sequence", "label")

    def __init__(self, ordered: Callable[[L, M], object], labels: Sequence[L]) -> None:
        self._ordered = ordered
        self._sequence = labels
        self.label = labels.initial

    def __call__(self, message: M) -> L:
        """Send one message; its label. The label advances only when sending did not raise."""
        label = self.label
        self._ordered(label, message)
        self.label = self._sequence.next(label)
        return label


class BufferFull(Exception):  # noqa: N818  (the contract's word)
    """A message found the buffer full; it was not taken."""


class Duplicate(Exception):  # noqa: N818  (the contract's word)
    """A message has the label of one that is held, with another content; it was not taken.

    With cyclic labels this says that more is in transit than the cycle has labels.
    """


class OrderedProxy(Generic[L, M]):
    """Passes labelled messages to its delegate in the order of their labels, without the labels.

    A message whose label is expected is delivered at once, with those it frees; others are held,
    ``held_max`` at most. Only the next function is known here, so a label that was passed before
    cannot be told from one that is still to come: such a message stays held (with linear labels for
    ever, with cyclic ones until its turn comes round, when it is delivered a cycle late: a cycle
    must be longer than what is in transit). The service, which knows positions, rejects it.

    >>> from sequencer import LinearLabels
    >>> out = []
    >>> proxy = OrderedProxy(out.append, LinearLabels())
    >>> for label, message in [(3, "w"), (1, "y"), (2, "x"), (0, "z")]:
    ...     proxy(label, message)
    >>> out
    ['z', 'y', 'x', 'w']
    """

    __slots__ = ("_delayed", "_delegate", "_held_max", "_sequence", "expected")

    def __init__(
        self, delegate: Callable[[M], object], labels: Sequence[L], held_max: int = HELD_MAX
    ) -> None:
        self._delegate = delegate
        self._sequence = labels
        self._held_max = held_max
        self._delayed: dict[L, M] = {}
        self.expected = labels.initial

    @property
    def held(self) -> int:
        """Number of delayed messages."""
        return len(self._delayed)

    def __call__(self, label: L, message: M) -> None:
        """Take one message. Raises BufferFull or Duplicate; then the message was not taken."""
        if label != self.expected:
            self._delay(label, message)
            return
        self._deliver(message)
        while self.expected in self._delayed:
            self._deliver(self._delayed.pop(self.expected))

    def _deliver(self, message: M) -> None:
        self._delegate(message)
        self.expected = self._sequence.next(self.expected)

    def _delay(self, label: L, message: M) -> None:
        if label in self._delayed:
            if self._delayed[label] != message:
                raise Duplicate(f"label {label!r} is held with another message")
            return
        if len(self._delayed) >= self._held_max:
            raise BufferFull(f"{len(self._delayed)} messages wait for label {self.expected!r}")
        self._delayed[label] = message
