"""The sender's side of bus1's protocol: one transaction, step by step.

Source: bus1 wiki, "Message ordering". A transaction asks peers for steps and takes their replies;
it never calls anyone, so the same object serves a program that carries out the steps itself, a
scheduler that tries all their interleavings, and shards that exchange them as messages.

    several queues:  PROBE > BLOCK > [REGISTER] > TICK > SYNC > QUEUE > DONE
    one queue:       PROBE > ARRIVE > ADOPT > DONE
    destruction:     BEGIN, then either of them
    refused:         CANCEL > REFUSED, from BLOCK, REGISTER or SYNC

The steps of one phase may be carried out in any order; a phase begins when all steps of the one
before are answered. REGISTER is there for messages that carry handles: these always block, also
with one destination, since the block announces the handles to the receiver.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sequencer.clock_messages import (
    Arrive,
    Begin,
    Begun,
    Block,
    Cancel,
    Destruction,
    Done,
    Enqueue,
    Message,
    NoticeParcel,
    Parcel,
    Probe,
    Refusal,
    Refused,
    Register,
    Registered,
    Reply,
    Request,
    Stamped,
    Sync,
    Tick,
    Told,
    TransactionId,
)
from sequencer.clock_queue import ProtocolError, Stamp

if TYPE_CHECKING:
    from collections.abc import Iterable


class Phase(StrEnum):
    """Where a transaction stands; see the picture at the top of the file."""

    BEGIN = "begin"
    PROBE = "probe"
    BLOCK = "block"
    REGISTER = "register"
    TICK = "tick"
    SYNC = "sync"
    QUEUE = "queue"
    ARRIVE = "arrive"
    ADOPT = "adopt"
    CANCEL = "cancel"
    DONE = "done"
    REFUSED = "refused"


ENDED = frozenset({Phase.DONE, Phase.REFUSED})
VISIBLE = ENDED | {Phase.QUEUE, Phase.CANCEL}
"""The clock of every destination is synced: what starts now gets a later timestamp there."""
STAMPED = VISIBLE | {Phase.SYNC}
"""The timestamp is taken: what the sender stamps now comes later."""


class Transaction:
    """One message, or one destruction, on its way to its queues.

    `may_stamp` and `may_show` are the sender's leave to take the timestamp and to let the message
    be seen; `SenderLine` gives them in the order of sending. `stamp` is set when DONE, `refusal`
    when REFUSED; `gone` lists the destination nodes that were destroyed before the message.
    """

    def __init__(self, number: TransactionId, task: Message | Destruction) -> None:
        self.number = number
        self.task = task
        self.may_stamp = True
        self.may_show = True
        self.stamp: Stamp | None = None
        self.refusal: Refused | None = None
        self.gone: tuple[str, ...] = ()
        self.maximum = 0
        self.dead: tuple[str, ...] = ()
        self.parcels: dict[str, tuple[Parcel | NoticeParcel, ...]] = {}
        self.blocked: tuple[str, ...] = ()
        self.phase = Phase.PROBE
        self.waiting: tuple[str, ...] = ()
        self.open: tuple[str, ...] = ()
        if isinstance(task, Destruction):
            self._enter(Phase.BEGIN, (task.sender,))
        else:
            self._address(task)
            self._enter(Phase.PROBE, (task.sender,))

    @property
    def unicast(self) -> bool:
        """Whether it goes to one queue and carries no handles, so that it needs no block."""
        return len(self.parcels) == 1 and not self._handles()

    def requests(self) -> tuple[Request, ...]:
        """The steps that can be carried out now, in any order; `asked` takes one off the list.

        Built anew at each call: a block asked for later carries a better estimate. While the
        sender's leave is missing there is none.
        """
        if self.phase in (Phase.BEGIN, Phase.TICK) and not self.may_stamp:
            return ()
        if self.phase == Phase.PROBE and self.unicast and not (self.may_stamp and self.may_show):
            return ()
        if self.phase == Phase.QUEUE and not self.may_show:
            return ()
        return tuple(self._request(target) for target in self.open)

    def asked(self, request: Request) -> None:
        """The request is on its way to its peer and is not to be made again."""
        target = self._target(request)
        self.open = tuple(other for other in self.open if other != target)

    def receive(self, reply: Reply) -> None:
        """Take the reply to one of the steps asked for.

        Raises ProtocolError for any other: nothing was changed, and one of the two sides has
        lost or repeated a step.
        """
        target = self._target(reply)
        if reply.transaction != self.number or target not in self.waiting:
            raise ProtocolError(f"{self.number} in {self.phase} expects no {reply}")
        self.waiting = tuple(other for other in self.waiting if other != target)
        self.open = tuple(other for other in self.open if other != target)
        if isinstance(reply, Refused):
            self.refusal = self.refusal or reply
        else:
            getattr(self, f"_take_{type(reply).__name__.lower()}")(reply)
        if not self.waiting:
            self._advance()

    def state(self) -> tuple[Any, ...]:
        """All there is to know besides the task; equal states behave alike."""
        leave = (self.may_stamp, self.may_show)
        seen = (self.maximum, self.stamp, self.refusal, self.gone, self.dead)
        places = (tuple(self.parcels.items()), self.blocked)
        return (self.phase.value, self.waiting, self.open, *leave, *seen, *places)

    def load(self, state: tuple[Any, ...]) -> None:
        """Become what `state` was taken from."""
        phase, self.waiting, self.open, self.may_stamp, self.may_show, *rest = state
        self.phase = Phase(phase)
        self.maximum, self.stamp, self.refusal, self.gone, self.dead, *rest = rest
        parcels, self.blocked = rest
        self.parcels = dict(parcels)

    def _address(self, message: Message) -> None:
        """Sort the deliveries by the queue that they go to."""
        for to in message.destinations:
            parcel = Parcel(message.id, to.node, message.handles, (), message.payload)
            self.parcels[to.peer] = (*self.parcels.get(to.peer, ()), parcel)

    def _handles(self) -> tuple[str, ...]:
        return self.task.handles if isinstance(self.task, Message) else ()

    def _enter(self, phase: Phase, waiting: Iterable[str] = ()) -> None:
        self.phase = phase
        self.waiting = tuple(waiting)
        self.open = self.waiting

    def _request(self, target: str) -> Request:
        """The step that the present phase asks of `target`."""
        request: Request = getattr(self, f"_ask_{self.phase}")(target)
        return request

    def _target(self, step: Request | Reply) -> str:
        """In REGISTER the steps are told apart by their nodes, as one peer may own several."""
        if self.phase == Phase.REGISTER and isinstance(step, Register | Registered | Refused):
            return step.node or ""
        return step.peer

    # --- What each phase asks for.

    def _ask_begin(self, target: str) -> Request:
        return Begin(self.number, target, self._destroys() or "")

    def _ask_probe(self, target: str) -> Request:
        return Probe(self.number, target)

    def _ask_block(self, target: str) -> Request:
        return Block(self.number, target, self.maximum, self.parcels[target])

    def _ask_register(self, target: str) -> Request:
        task = self.task
        assert isinstance(task, Message)  # noqa: S101 -- for the type checker: only these register
        owner = task.handle_owners[task.handles.index(target)]
        return Register(self.number, owner, target, self.blocked)

    def _ask_tick(self, target: str) -> Request:
        return Tick(self.number, target, self.maximum, self._destroys())

    def _ask_sync(self, target: str) -> Request:
        nodes = tuple(p.node for p in self._left(target) if isinstance(p, Parcel) and p.node)
        return Sync(self.number, target, self._stamp(), nodes)

    def _ask_queue(self, target: str) -> Request:
        left = self._left(target)
        if not left:
            return self._ask_cancel(target)
        return Enqueue(self.number, target, self._stamp(), left, self._handles())

    def _ask_cancel(self, target: str) -> Request:
        return Cancel(self.number, target, self._handles())

    def _ask_arrive(self, target: str) -> Request:
        return Arrive(self.number, target, self.maximum, self.parcels[target], self._destroys())

    def _ask_adopt(self, target: str) -> Request:
        return Sync(self.number, target, self._stamp(), ())

    # --- What each reply tells.

    def _take_told(self, reply: Told) -> None:
        self.maximum = max(self.maximum, reply.clock)
        if self.phase == Phase.BLOCK:
            self.gone += reply.gone
            if self._left(reply.peer):
                self.blocked = tuple(sorted((*self.blocked, reply.peer)))

    def _take_registered(self, reply: Registered) -> None:
        if reply.destroyed is not None:
            # Above the destruction's timestamp, so that the stamps tell what was decided here.
            self.maximum = max(self.maximum, reply.destroyed.timestamp)
            self.dead = tuple(sorted((*self.dead, reply.node)))

    def _take_begun(self, reply: Begun) -> None:
        notice = NoticeParcel(self.task.id, self._destroys() or "")
        self.parcels = dict.fromkeys((self.task.sender, *reply.holders), (notice,))

    def _take_stamped(self, reply: Stamped) -> None:
        self.stamp = reply.stamp
        self.gone += reply.gone

    def _take_done(self, reply: Done) -> None:
        self.gone += reply.gone

    # --- Where a phase leads when all its steps are answered.

    def _advance(self) -> None:
        if self.refusal is not None:
            self._give_up()
        else:
            getattr(self, f"_after_{self.phase}")()

    def _after_begin(self) -> None:
        self._enter(Phase.PROBE, (self.task.sender,))

    def _after_probe(self) -> None:
        self._enter(Phase.ARRIVE if self.unicast else Phase.BLOCK, self.parcels)

    def _after_block(self) -> None:
        if not self.blocked:
            self._none_left()
        elif self._handles():
            self._enter(Phase.REGISTER, self._handles())
        else:
            self._after_register()

    def _after_register(self) -> None:
        self._enter(Phase.TICK, (self.task.sender,))

    def _after_tick(self) -> None:
        self._enter(Phase.SYNC, self.blocked)

    def _after_sync(self) -> None:
        if any(self._left(peer) for peer in self.blocked):
            self._enter(Phase.QUEUE, self.blocked)
        else:
            self._none_left()

    def _after_queue(self) -> None:
        self._enter(Phase.DONE)

    def _after_arrive(self) -> None:
        if self.stamp is None:
            self._none_left()
        else:
            self._enter(Phase.ADOPT, (self.task.sender,))

    def _after_adopt(self) -> None:
        self._enter(Phase.DONE)

    def _after_cancel(self) -> None:
        self._enter(Phase.REFUSED)

    def _none_left(self) -> None:
        detail = f"all destinations of {self.task.id!r} are destroyed; nobody got it"
        self.refusal = Refused(self.number, self.task.sender, Refusal.DESTROYED_NODE, detail)
        self._give_up()

    def _give_up(self) -> None:
        self.stamp = None
        if self.blocked and self.phase != Phase.CANCEL:
            self._enter(Phase.CANCEL, self.blocked)
        else:
            self._enter(Phase.REFUSED)

    def _destroys(self) -> str | None:
        return self.task.node if isinstance(self.task, Destruction) else None

    def _left(self, peer: str) -> tuple[Parcel | NoticeParcel, ...]:
        """The deliveries to one queue without those to destroyed nodes, handles as registered."""
        return tuple(
            Parcel(p.message, p.node, p.handles, self.dead, p.payload)
            if isinstance(p, Parcel)
            else p
            for p in self.parcels[peer]
            if isinstance(p, NoticeParcel) or p.node is None or p.node not in self.gone
        )

    def _stamp(self) -> Stamp:
        if self.stamp is None:
            raise ProtocolError(f"{self.number} in {self.phase} has no stamp yet")
        return self.stamp
