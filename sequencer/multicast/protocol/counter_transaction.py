"""The sender's side of kdbus' protocol.

Source: kdbus, "Message Ordering".

    read > copy > increment > commit > done
    refused: drop > refused, from copy or increment

The text has a peer queue one message at a time. Here a sender may have several in flight: only
`increment` is asked for in the order of sending. Whoever has an earlier and a later one has
the earlier copy in the queue before the later gets its number, and that copy's seq_lower is below
that number: it stands in front, and holds the later one back until it is committed.

The destruction of a node goes back from `increment` to `copy` when the node got a new holder
meanwhile: the notice's number must not be taken before every holder has a copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

from sequencer.multicast.protocol.counter_messages import (
    COUNTER,
    Assigned,
    Commit,
    CopyIn,
    Drop,
    Increment,
    Read,
    Value,
)
from sequencer.multicast.protocol.transaction import Transaction
from sequencer.multicast.protocol.words import Done, ProtocolError

if TYPE_CHECKING:
    from sequencer.multicast.protocol.words import Reply, Request


class CounterNotes(NamedTuple):
    """What a transaction by the counter keeps: the counter at its start, and names.

    `missing`: holders of a node to be destroyed who have no copy yet; `copied`: who has, sorted.
    """

    seq_lower: int
    missing: tuple[str, ...]
    copied: tuple[str, ...]


class CounterTransaction(Transaction):
    """One message, or one destruction, by kdbus' protocol."""

    visible_phases: ClassVar[frozenset[str]] = Transaction.ended_phases | {"commit", "drop"}
    stamped_phases: ClassVar[frozenset[str]] = visible_phases

    def _start(self) -> None:
        self.seq_lower = 0
        self.copied: dict[str, None] = {}
        self.missing: tuple[str, ...] = ()
        self._enter("read", (COUNTER,))

    def copy(self) -> Self:
        """An independent transaction in the same state."""
        other = super().copy()
        other.copied = self.copied.copy()
        return other

    def _notes(self) -> CounterNotes:
        return CounterNotes(self.seq_lower, self.missing, tuple(sorted(self.copied)))

    def _load_notes(self, notes: CounterNotes) -> None:
        self.seq_lower, self.missing = notes.seq_lower, notes.missing
        self.copied = dict.fromkeys(notes.copied)

    @property
    def stamped(self) -> bool:
        """The number is taken, or will be before any that the sender asks for later.

        What goes to the counter gets there in order, so a message need not wait for the answer to
        an earlier one. A destruction may have to ask again, so what follows it waits.
        """
        asked = self.phase == "increment" and not self.open and self._destroys() is None
        return asked or super().stamped

    def _held_back(self) -> bool:
        return self.phase == "increment" and not self.may_stamp

    # --- What each phase asks for.

    def _ask(self, target: str) -> Request:
        match self.phase:
            case "read":
                return self._ask_read(target)
            case "copy":
                return self._ask_copy(target)
            case "increment":
                return self._ask_increment(target)
            case "commit":
                return self._ask_commit(target)
            case "drop":
                return self._ask_drop(target)
        raise self._no_such_phase()

    def _ask_read(self, target: str) -> Request:
        known = (*self._nodes(), *self._handles())
        return Read(self.number, target, known, self._destroys())

    def _ask_copy(self, target: str) -> Request:
        return CopyIn(self.number, target, self.seq_lower, self.parcels[target])

    def _ask_increment(self, target: str) -> Request:
        plain = any(p.destination is None for parcels in self.parcels.values() for p in parcels)
        handles, destroys = self._handles(), self._destroys()
        return Increment(
            self.number, target, self._nodes(), plain, handles, tuple(sorted(self.copied)), destroys
        )

    def _ask_commit(self, target: str) -> Request:
        return Commit(self.number, target, self._stamp(), self._left(target), self.dead)

    def _ask_drop(self, target: str) -> Request:
        return Drop(self.number, target)

    # --- What each reply says.

    def _take(self, reply: Reply) -> None:
        match reply:
            case Done():
                self._take_done(reply)
            case Value():
                self._take_value(reply)
            case Assigned():
                self._take_assigned(reply)
            case _:
                raise ProtocolError(f"{self.number} knows no reply {reply}")

    def _take_value(self, reply: Value) -> None:
        self.seq_lower = reply.value
        if self._destroys() is not None:
            self._address_notice(reply.holders)

    def _take_done(self, reply: Done) -> None:
        if self.phase == "copy":
            self.copied[reply.peer] = None

    def _take_assigned(self, reply: Assigned) -> None:
        self.stamp = reply.stamp
        self.gone = set(reply.gone)
        self.dead, self.missing = reply.dead, reply.missing

    # --- Where a phase leads when all its steps are answered.

    def _proceed(self) -> None:
        match self.phase:
            case "read":
                self._after_read()
            case "copy":
                self._after_copy()
            case "increment":
                self._after_increment()
            case "commit":
                self._after_commit()
            case _:
                raise self._no_such_phase()

    def _after_read(self) -> None:
        self._enter("copy", self.parcels)

    def _after_copy(self) -> None:
        self._enter("increment", (COUNTER,))

    def _after_increment(self) -> None:
        if self.missing:
            self._address_notice(sorted((*self.copied, *self.missing)))
            self._enter("copy", self.missing)
        elif self.stamp is None:
            self._none_left()
        else:
            self._enter("commit", self.copied)

    def _after_commit(self) -> None:
        self._enter("done")

    def _give_up(self) -> None:
        self.stamp = None
        if self.copied and self.phase != "drop":
            self._enter("drop", self.copied)
        else:
            self._enter("refused")

    def _nodes(self) -> tuple[str, ...]:
        """The destination nodes, in the order of queues."""
        parcels = (p for queued in self.parcels.values() for p in queued)
        return tuple(node for p in parcels if (node := p.destination) is not None)
