"""A sender's line: several transactions in flight, seen by everyone in the order of sending.

bus1's sender is a system call that returns when its message is queued, so a sender's messages
never overlap. Here they may, and two rules keep what the overlap would break:

1. Timestamps are taken in the order of sending. Otherwise the later message could get the lower
   one, and be delivered first.
2. A message is shown (queued anywhere, or known to be refused) only when the clocks of all
   destinations of the sender's earlier messages are synced. Otherwise someone reads the later
   message, tells a third peer by other means, and what that peer sends overtakes the earlier
   message, whose destinations still have low clocks: an effect before its cause.

What may overlap is the rest: any number of messages of one sender can be blocking, registering
and syncing at the same time.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Self

from sequencer.multicast.protocol.words import (
    IN_FLIGHT_MAX,
    LimitError,
    ProtocolError,
    Reply,
    Request,
    Task,
    TransactionId,
    clone,
)

if TYPE_CHECKING:
    from sequencer.multicast.protocol.transaction import Transaction


class SenderLine:
    """The transactions of one sender, from `send` until they end.

    Every call costs O(1) per step that it makes possible, whatever the number in flight.
    """

    def __init__(
        self,
        sender: str,
        transaction_type: type[Transaction],
        *,
        in_flight_max: int = IN_FLIGHT_MAX,
    ) -> None:
        self.sender = sender
        self.transaction_type = transaction_type
        self.in_flight_max = in_flight_max
        self.serial = 0
        self.flying: dict[int, Transaction] = {}
        self._unstamped: deque[int] = deque()
        self._unseen: deque[int] = deque()

    def send(self, task: Task) -> Transaction:
        """Put a message at the end of the line. Raises LimitError if too many are in flight."""
        if task.sender != self.sender:
            raise ProtocolError(f"{task.id!r} is from {task.sender}, not from {self.sender}")
        if len(self.flying) >= self.in_flight_max:
            raise LimitError(
                f"{self.sender}: {self.in_flight_max} messages are in flight; "
                f"{task.id!r} was not sent, send it again when one has ended"
            )
        number = TransactionId(self.sender, self.serial)
        alone = not self._unstamped and not self._unseen
        transaction = self.transaction_type(number, task, alone=alone)
        transaction.may_stamp = not self._unstamped
        transaction.may_show = not self._unseen
        self.flying[self.serial] = transaction
        self._unstamped.append(self.serial)
        self._unseen.append(self.serial)
        self.serial += 1
        return transaction

    def requests(self) -> tuple[Request, ...]:
        """All steps that can be carried out now, of all transactions in flight."""
        return tuple(r for transaction in self.flying.values() for r in transaction.requests())

    def ask(self, transaction: Transaction) -> tuple[tuple[Request, ...], tuple[Transaction, ...]]:
        """All steps that a transaction can have carried out now, which are on their way then.

        Also returns the transactions whose `requests` may be new.
        """
        requests = transaction.requests()
        if not requests:
            return (), ()
        transaction.open.clear()
        return requests, tuple(self._pass_on({}).values())

    def asked(self, request: Request) -> tuple[Transaction, ...]:
        """The request is on its way to its peer; returns those whose `requests` may be new."""
        self.flying[request.transaction.serial].asked(request)
        return tuple(self._pass_on({}).values())

    def receive(self, reply: Reply) -> tuple[Transaction, ...]:
        """Take a reply; returns the transactions that it moved on, its own first.

        Those are the ones whose `requests` may be new; none before a phase's last reply. Those
        that have ended leave the line.
        """
        transaction = self.flying.get(reply.transaction.serial)
        if transaction is None:
            raise ProtocolError(f"{self.sender} has no {reply.transaction} in flight for {reply}")
        phase = transaction.phase
        transaction.receive(reply)
        if transaction.phase == phase:  # other replies are to come
            return ()
        moved = self._pass_on({transaction.number.serial: transaction})
        for serial, one in moved.items():
            if one.ended:
                del self.flying[serial]
        return tuple(moved.values())

    def _pass_on(self, moved: dict[int, Transaction]) -> dict[int, Transaction]:
        """Give leave to those whose turn has come, and add them to `moved`."""
        # None in the two lines is missing in flight: to have ended, it was shown, and so has left.
        while self._unstamped:
            head = self.flying[self._unstamped[0]]
            if not head.may_stamp:
                head.may_stamp = True
                moved[self._unstamped[0]] = head
            if not head.stamped:
                break
            self._unstamped.popleft()
        while self._unseen:
            head = self.flying[self._unseen[0]]
            if not head.may_show:
                head.may_show = True
                moved[self._unseen[0]] = head
            if not head.visible:
                break
            self._unseen.popleft()
        return moved

    def copy(self) -> Self:
        """An independent line in the same state."""
        other = clone(self)
        other.flying = {number: t.copy() for number, t in self.flying.items()}
        other._unstamped = self._unstamped.copy()  # noqa: SLF001 -- of the same class
        other._unseen = self._unseen.copy()  # noqa: SLF001 -- likewise
        return other

    def state(self) -> tuple[Any, ...]:
        """All there is to know, tasks included; `load` takes it back."""
        flying = tuple((n, t.task, t.state()) for n, t in self.flying.items())
        return (self.serial, flying, tuple(self._unstamped), tuple(self._unseen))

    def load(self, state: tuple[Any, ...]) -> None:
        """Become what `state` was taken from."""
        self.serial, flying, unstamped, unseen = state
        self.flying = {}
        for number, task, inner in flying:
            self.flying[number] = self.transaction_type(TransactionId(self.sender, number), task)
            self.flying[number].load(inner)
        self._unstamped, self._unseen = deque(unstamped), deque(unseen)
