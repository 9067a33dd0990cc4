"""What both multicast protocols share on the sender's side: a transaction as a machine of steps.

A transaction asks peers for steps and takes their replies; it never calls anyone. So the same
object serves a program that carries out the steps itself, a scheduler that tries all their
interleavings, and shards that exchange requests and replies as messages.

A phase has one step for each of its targets. The steps of a phase may be carried out in any
order; the next phase begins when all of them are answered. A protocol gives three tables: `_ask`,
what a phase asks of a target; `_take`, what a reply says; `_proceed`, where a phase leads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from sequencer.multicast.protocol.words import (
    Destruction,
    Kind,
    Message,
    Parcel,
    ProtocolError,
    Refusal,
    Refused,
    Release,
    Reply,
    Request,
    Stamp,
    Task,
    TransactionId,
    clone,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


class TransactionState(NamedTuple):
    """All there is to know of a transaction besides its task, frozen; equal states behave alike.

    Sets and the targets of the phase (`waiting`; `open`: not asked yet) are sorted: their order
    was that of the replies. `notes` is what the protocol keeps, a named tuple of its own.
    """

    phase: str
    alone: bool
    may_stamp: bool
    may_show: bool
    stamp: Stamp | None
    refusal: Refused | None
    dead: tuple[str, ...]
    waiting: tuple[str, ...]
    open: tuple[str, ...]
    gone: tuple[str, ...]
    parcels: tuple[tuple[str, tuple[Parcel, ...]], ...]
    notes: Any


class Transaction(ABC):
    """One message, destruction or release, on its way to its queues.

    `may_stamp` and `may_show` are the sender's leave to take the timestamp and to let the message
    be seen; `SenderLine` gives them in the order of sending, and at once to a message that finds
    its sender `alone`, with nothing of its own on its way. When `done`, `stamp` is set, or
    `refusal` if nobody got the message. `gone`: the destination nodes destroyed before it.
    """

    ended_phases: ClassVar[frozenset[str]] = frozenset({"done", "refused"})
    visible_phases: ClassVar[frozenset[str]] = ended_phases
    stamped_phases: ClassVar[frozenset[str]] = ended_phases

    def __init__(self, number: TransactionId, task: Task, *, alone: bool = True) -> None:
        self.number = number
        self.task = task
        self.alone = alone
        self.may_stamp = alone
        self.may_show = alone
        self.stamp: Stamp | None = None
        self.refusal: Refused | None = None
        self.gone: set[str] = set()
        self.dead: tuple[str, ...] = ()
        self.parcels: dict[str, tuple[Parcel, ...]] = {}
        self.phase = ""
        self.waiting: dict[str, None] = {}
        self.open: dict[str, None] = {}
        if isinstance(task, Message):
            self._address(task)
        elif isinstance(task, Release):
            self.parcels = {task.peer: (Parcel(task.id, task.node, kind=Kind.RELEASE),)}
        self._start()

    @property
    def ended(self) -> bool:
        """Nothing more is to be done, and that may be known.

        A refusal is no exception to the order of sending: a peer that learns of it might send what
        overtakes the sender's earlier messages.
        """
        return self.phase in self.ended_phases and self.may_show

    @property
    def visible(self) -> bool:
        """Whatever starts now comes after this message, wherever they meet."""
        return self.phase in self.visible_phases

    @property
    def stamped(self) -> bool:
        """The timestamp is taken: what the sender stamps now comes later."""
        return self.phase in self.stamped_phases

    def requests(self) -> tuple[Request, ...]:
        """The steps that can be carried out now, in any order; `asked` takes one off the list.

        Built anew at each call: a step asked for later carries what was learned meanwhile. While
        the sender's leave is missing there is none.
        """
        if self._held_back():
            return ()
        return tuple(self._ask(target) for target in self.open)

    def asked(self, request: Request) -> None:
        """The request is on its way to its peer and is not to be made again."""
        self.open.pop(self._target(request), None)

    def receive(self, reply: Reply) -> None:
        """Take the reply to one of the steps asked for.

        Raises ProtocolError for any other: nothing was changed, and one of the two sides has
        lost or repeated a step.
        """
        target = self._target(reply)
        if reply.transaction != self.number or target not in self.waiting:
            raise ProtocolError(f"{self.number} in phase {self.phase} expects no {reply}")
        del self.waiting[target]
        self.open.pop(target, None)
        if isinstance(reply, Refused):
            self.refusal = self.refusal or reply
        else:
            self._take(reply)
        if self.waiting:
            return
        if self.refusal is not None:
            self._give_up()
        else:
            self._proceed()

    def copy(self) -> Self:
        """An independent transaction in the same state."""
        other = clone(self)
        other.waiting, other.open = self.waiting.copy(), self.open.copy()
        other.gone = self.gone.copy()
        return other

    def state(self) -> TransactionState:
        """All there is to know besides the task; `load` takes it back."""
        return TransactionState(
            self.phase,
            self.alone,
            self.may_stamp,
            self.may_show,
            self.stamp,
            self.refusal,
            self.dead,
            tuple(sorted(self.waiting)),
            tuple(sorted(self.open)),
            tuple(sorted(self.gone)),
            tuple(self.parcels.items()),
            self._notes(),
        )

    def load(self, state: TransactionState) -> None:
        """Become what `state` was taken from."""
        self.phase, self.alone = state.phase, state.alone
        self.may_stamp, self.may_show = state.may_stamp, state.may_show
        self.stamp, self.refusal, self.dead = state.stamp, state.refusal, state.dead
        self.waiting, self.open = dict.fromkeys(state.waiting), dict.fromkeys(state.open)
        self.gone, self.parcels = set(state.gone), dict(state.parcels)
        self._load_notes(state.notes)

    @abstractmethod
    def _notes(self) -> Any:
        """What the protocol keeps besides: a named tuple of frozen values."""

    @abstractmethod
    def _load_notes(self, notes: Any) -> None:
        """Take back what `_notes` gave."""

    @abstractmethod
    def _start(self) -> None:
        """Enter the first phase."""

    @abstractmethod
    def _ask(self, target: str) -> Request:
        """The step that the present phase asks of `target`."""

    @abstractmethod
    def _take(self, reply: Reply) -> None:
        """Keep what a reply says; it is no refusal."""

    @abstractmethod
    def _proceed(self) -> None:
        """Enter the phase that follows the present one, whose steps are all answered."""

    @abstractmethod
    def _held_back(self) -> bool:
        """Return whether the present phase has to wait for the sender's leave."""

    @abstractmethod
    def _give_up(self) -> None:
        """Undo what was done; nobody gets the message."""

    def _address(self, message: Message) -> None:
        """Sort the deliveries by the queue that they go to."""
        parcels: dict[str, list[Parcel]] = {}
        for to in message.destinations:
            parcel = Parcel(message.id, to.node, message.handles, message.payload)
            parcels.setdefault(to.peer, []).append(parcel)
        self.parcels = {peer: tuple(queued) for peer, queued in parcels.items()}

    def _address_notice(self, holders: Iterable[str]) -> None:
        """A destruction goes to the owner, and to those who have the handle."""
        notice = Parcel(self.task.id, self._destroys(), kind=Kind.NOTICE)
        self.parcels = dict.fromkeys((self.task.sender, *holders), (notice,))

    def _enter(self, phase: str, waiting: Iterable[str] = ()) -> None:
        self.phase = phase
        # Sorted, as after `load`: the order in which replies came must not show in what follows.
        self.waiting = dict.fromkeys(sorted(waiting))
        self.open = self.waiting.copy()

    def _target(self, step: Request | Reply) -> str:
        """What distinguishes the steps of one phase."""
        return step.peer

    def _left(self, peer: str) -> tuple[Parcel, ...]:
        """The deliveries to one queue without those to destroyed nodes."""
        if not self.gone:
            return self.parcels[peer]
        return tuple(p for p in self.parcels[peer] if p.destination not in self.gone)

    def _handles(self) -> tuple[str, ...]:
        return self.task.handles if isinstance(self.task, Message) else ()

    def _destroys(self) -> str | None:
        return self.task.node if isinstance(self.task, Destruction) else None

    def _no_such_phase(self) -> ProtocolError:
        return ProtocolError(f"{self.number}: nothing is asked for in phase {self.phase!r}")

    def _stamp(self) -> Stamp:
        if self.stamp is None:
            raise ProtocolError(f"{self.number} in phase {self.phase} has no stamp yet")
        return self.stamp

    def _none_left(self) -> None:
        detail = f"all destinations of {self.task.id!r} are destroyed; nobody got it"
        self.refusal = Refused(self.number, self.task.sender, Refusal.DESTROYED_NODE, detail)
        self._give_up()
