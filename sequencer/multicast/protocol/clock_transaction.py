"""The sender's side of bus1's protocol.

Source: bus1 wiki, "Message ordering".

    several queues:  probe > block > [register] > tick > sync > queue > done
    one queue:       probe > arrive > adopt > done
    destruction:     begin, then either of them
    refused:         cancel > refused, from block, register or sync

`register` is there for messages that carry handles: these always block, also with one
destination, since the block announces the handles to the receiver. A message to one queue that
is not alone blocks, too: it could not be stamped before its sender's earlier ones, and the
sender's later ones would have to wait for it in turn.

Why one queue needs no block. A block keeps the messages apart that come between taking a
timestamp and queueing it; `arrive` does both in one step of the queue, above everything that was
ever queued there. Taking the timestamp from the sender's clock instead, even after syncing it to
the destination's, is not enough: what is queued and dequeued meanwhile can have a higher one.
What was stamped before by this sender is below the estimate, as the sender was alone when it
gave it; and its clock is synced to the stamp before it takes another (`adopt`). So the stamps of
one sender stay unique and in the order of sending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

from sequencer.multicast.protocol.clock_messages import (
    Arrive,
    Begin,
    Begun,
    Block,
    Cancel,
    Clock,
    Enqueue,
    Probe,
    Register,
    Registered,
    Stamped,
    Sync,
    Tick,
)
from sequencer.multicast.protocol.transaction import Transaction
from sequencer.multicast.protocol.words import Done, Message, ProtocolError, Refused

if TYPE_CHECKING:
    from sequencer.multicast.protocol.words import Reply, Request


class ClockNotes(NamedTuple):
    """What a transaction by clocks keeps: the highest clock that it received, and names, sorted.

    `blocked`: peers with a block of it; `registered`: passed nodes that noted its receivers.
    """

    maximum: int
    blocked: tuple[str, ...]
    registered: tuple[str, ...] = ()


class ClockTransaction(Transaction):
    """One message, or one destruction, by bus1's protocol."""

    visible_phases: ClassVar[frozenset[str]] = Transaction.ended_phases | {"queue", "cancel"}
    stamped_phases: ClassVar[frozenset[str]] = visible_phases | {"sync"}

    def _start(self) -> None:
        self.maximum = 0
        self.blocked: dict[str, None] = {}
        self.registered: set[str] = set()
        self._enter("begin" if self._destroys() else "probe", (self.task.sender,))

    def copy(self) -> Self:
        """An independent transaction in the same state."""
        other = super().copy()
        other.blocked, other.registered = self.blocked.copy(), self.registered.copy()
        return other

    def _notes(self) -> ClockNotes:
        return ClockNotes(self.maximum, tuple(sorted(self.blocked)), tuple(sorted(self.registered)))

    def _load_notes(self, notes: ClockNotes) -> None:
        self.maximum = notes.maximum
        self.blocked, self.registered = dict.fromkeys(notes.blocked), set(notes.registered)

    @property
    def unicast(self) -> bool:
        """Whether it goes to one queue, alone and without handles, so that it needs no block."""
        return self.alone and len(self.parcels) == 1 and not self._handles()

    def _held_back(self) -> bool:
        if self.phase in ("begin", "tick"):
            return not self.may_stamp
        return self.phase == "queue" and not self.may_show

    def _target(self, step: Request | Reply) -> str:
        # One peer may own several of the passed nodes.
        if self.phase == "register" and isinstance(step, Register | Registered | Refused):
            return step.node or ""
        return step.peer

    # --- What each phase asks for.

    def _ask(self, target: str) -> Request:  # noqa: C901, PLR0911 -- a table of phases
        match self.phase:
            case "probe":
                return self._ask_probe(target)
            case "block":
                return self._ask_block(target)
            case "tick":
                return self._ask_tick(target)
            case "sync":
                return self._ask_sync(target)
            case "queue":
                return self._ask_queue(target)
            case "arrive":
                return self._ask_arrive(target)
            case "adopt":
                return self._ask_adopt(target)
            case "register":
                return self._ask_register(target)
            case "begin":
                return self._ask_begin(target)
            case "cancel":
                return self._ask_cancel(target)
        raise self._no_such_phase()

    def _ask_begin(self, target: str) -> Request:
        return Begin(self.number, target, self._destroys() or "")

    def _ask_probe(self, target: str) -> Request:
        return Probe(self.number, target)

    def _ask_block(self, target: str) -> Request:
        return Block(self.number, target, self.maximum, self.parcels[target])

    def _ask_register(self, target: str) -> Request:
        owners = self.task.owners() if isinstance(self.task, Message) else {}
        return Register(self.number, owners[target], target, tuple(sorted(self.blocked)))

    def _ask_tick(self, target: str) -> Request:
        return Tick(self.number, target, self.maximum, self._destroys())

    def _ask_sync(self, target: str) -> Request:
        remaining = self._left(target)
        nodes = tuple(node for p in remaining if (node := p.destination) is not None)
        return Sync(self.number, target, self._stamp(), nodes)

    def _ask_queue(self, target: str) -> Request:
        remaining = self._left(target)
        if not remaining:
            return self._ask_cancel(target)
        return Enqueue(self.number, target, self._stamp(), remaining, self.dead)

    def _ask_cancel(self, target: str) -> Request:
        return Cancel(self.number, target, self._handles(), tuple(sorted(self.registered)))

    def _ask_arrive(self, target: str) -> Request:
        return Arrive(self.number, target, self.maximum, self.parcels[target], self._destroys())

    def _ask_adopt(self, target: str) -> Request:
        return Sync(self.number, target, self._stamp(), ())

    # --- What each reply says.

    def _take(self, reply: Reply) -> None:
        match reply:
            case Clock():
                self._take_clock(reply)
            case Done():
                self._take_done(reply)
            case Stamped():
                self._take_stamped(reply)
            case Registered():
                self._take_registered(reply)
            case Begun():
                self._take_begun(reply)
            case _:
                raise ProtocolError(f"{self.number} knows no reply {reply}")

    def _take_begun(self, reply: Begun) -> None:
        self._address_notice(reply.holders)

    def _take_clock(self, reply: Clock) -> None:
        self.maximum = max(self.maximum, reply.clock)
        if self.phase == "block":
            self.gone.update(reply.gone)
            if self._left(reply.peer):
                self.blocked[reply.peer] = None

    def _take_registered(self, reply: Registered) -> None:
        if reply.destroyed is not None:
            # Above the destruction's timestamp, so that the stamps tell what was decided here.
            self.maximum = max(self.maximum, reply.destroyed.timestamp)
            self.dead = tuple(sorted((*self.dead, reply.node)))
        else:
            self.registered.add(reply.node)

    def _take_stamped(self, reply: Stamped) -> None:
        self.stamp = reply.stamp
        self.gone.update(reply.gone)

    def _take_done(self, reply: Done) -> None:
        self.gone.update(reply.gone)

    # --- Where a phase leads when all its steps are answered.

    def _proceed(self) -> None:
        match self.phase:
            case "probe":
                self._after_probe()
            case "block":
                self._after_block()
            case "tick":
                self._after_tick()
            case "sync":
                self._after_sync()
            case "queue":
                self._after_queue()
            case "arrive":
                self._after_arrive()
            case "adopt":
                self._after_adopt()
            case "register":
                self._after_register()
            case "begin":
                self._after_begin()
            case _:
                raise self._no_such_phase()

    def _after_begin(self) -> None:
        self._enter("probe", (self.task.sender,))

    def _after_probe(self) -> None:
        self._enter("arrive" if self.unicast else "block", self.parcels)

    def _after_block(self) -> None:
        if not self.blocked:
            self._none_left()
        elif self._handles():
            self._enter("register", self._handles())
        else:
            self._after_register()

    def _after_register(self) -> None:
        self._enter("tick", (self.task.sender,))

    def _after_tick(self) -> None:
        self._enter("sync", self.blocked)

    def _after_sync(self) -> None:
        if any(self._left(peer) for peer in self.blocked):
            self._enter("queue", self.blocked)
        else:
            self._none_left()

    def _after_queue(self) -> None:
        self._enter("done")

    def _after_arrive(self) -> None:
        if self.stamp is None:
            self._none_left()
        else:
            self._enter("adopt", (self.task.sender,))

    def _after_adopt(self) -> None:
        self._enter("done")

    def _give_up(self) -> None:
        self.stamp = None
        if self.blocked and self.phase != "cancel":
            self._enter("cancel", self.blocked)
        else:
            self._enter("refused")
