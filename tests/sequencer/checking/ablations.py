"""The protocols with one safeguard left out each; the checker must find what that breaks."""

from sequencer.multicast.protocol.bus import ClockBus, CounterBus
from sequencer.multicast.protocol.clock_messages import Registered
from sequencer.multicast.protocol.clock_peer import ClockPeer
from sequencer.multicast.protocol.clock_queue import ClockQueue
from sequencer.multicast.protocol.clock_transaction import ClockTransaction
from sequencer.multicast.protocol.counter_messages import COUNTER, Increment
from sequencer.multicast.protocol.counter_peer import CounterPeer, GlobalCounter
from sequencer.multicast.protocol.counter_queue import CounterQueue
from sequencer.multicast.protocol.counter_transaction import CounterTransaction
from sequencer.multicast.protocol.nodes import HandleTable, OwnedNodes
from sequencer.multicast.protocol.words import Stamp


def clock_bus(*, queue=ClockQueue, transaction=ClockTransaction, peer=ClockPeer, bus=ClockBus):
    peer_type = type("AblatedPeer", (peer,), {"queue_type": queue})
    parts = {"peer_type": peer_type, "transaction_type": transaction}
    return type("AblatedClockBus", (bus,), parts)


def counter_bus(
    *,
    queue=CounterQueue,
    transaction=CounterTransaction,
    peer=CounterPeer,
    counter=GlobalCounter,
):
    peer_type = type("AblatedPeer", (peer,), {"queue_type": queue})
    parts = {"peer_type": peer_type, "transaction_type": transaction, "counter_type": counter}
    return type("AblatedCounterBus", (CounterBus,), parts)


# --- bus1


class NoBlocks(ClockQueue):
    def block(self, token, estimate=0, room=1):
        del token, room
        self.sync(estimate)
        return self.clock

    def unblock(self, token):
        pass


class SyncWhenQueueing(ClockTransaction):
    """Without the separate round of syncs, each clock is synced as its message is queued."""

    def _after_tick(self):
        self._enter("queue", self.blocked)


class LateSync(ClockQueue):
    def queue(self, token, stamp, contents):
        self.sync(stamp.timestamp)
        super().queue(token, stamp, contents)


class SenderNotSynced(ClockTransaction):
    def _ask_tick(self, target):
        self.maximum = 0
        return super()._ask_tick(target)


class NoTick(ClockQueue):
    def tick(self):
        return self.clock


class NoTieBreak(ClockQueue):
    """Equal timestamps stay in the order of arrival."""

    def _put(self, stamp, contents):
        super()._put(Stamp(stamp.timestamp, ""), contents)


class StampsOutOfTurn(ClockTransaction):
    def _held_back(self):
        return self.phase != "tick" and super()._held_back()


class ShownOutOfTurn(ClockTransaction):
    def _held_back(self):
        return self.phase != "queue" and super()._held_back()


class TellsRefusalsAtOnce(ClockBus):
    def do(self, request):
        told = super().do(request)
        flying = self.line(request.transaction.sender).flying.values()
        return told + [transaction for transaction in flying if transaction.phase == "refused"]


class AlwaysArrives(ClockTransaction):
    """A message to one queue arrives without a block, whatever its sender has on its way."""

    @property
    def unicast(self):
        return len(self.parcels) == 1 and not self._handles()


class NaiveUnicast(ClockTransaction):
    """One destination, no block: read its clock, sync the sender, tick, queue."""

    def _after_probe(self):
        if self.unicast and not self.blocked:
            self.blocked = dict.fromkeys(self.parcels)
            self._enter("probe", self.blocked)
        elif self.unicast:
            self._enter("tick", (self.task.sender,))
        else:
            super()._after_probe()

    def _after_tick(self):
        self._enter("queue" if self.unicast else "sync", self.blocked)


class SenderClockUnicast(NaiveUnicast):
    """As above, without reading the destination's clock."""

    def _ask_tick(self, target):
        if self.unicast:
            self.maximum = 0
        return super()._ask_tick(target)


class QueueWithoutBlock(LateSync):
    def unblock(self, token):
        if token in self._blocks:
            super().unblock(token)


class BlockAtZero(ClockQueue):
    """The block is placed before all messages, not behind those that are there."""

    def block(self, token, estimate=0, room=1):
        clock = super().block(token, estimate, room)
        self._blocks[token] = (0, room)
        self._blocks.move_to_end(token, last=False)
        return clock


class ForgetsNotices(HandleTable):
    def notice(self, node):
        known = super().notice(node)
        self._gone.discard(node)
        return known


class ForgetfulPeer(ClockPeer):
    def __init__(self, name, limits=None):
        super().__init__(name, limits)
        self.handles = ForgetsNotices(name)


class AnswersAtOnce(OwnedNodes):
    """Registers holders during a destruction, though the list of the notified is closed."""

    def register(self, node, holders, asker):
        del asker
        if self.destroyed(node) is None:
            self.add_holders([node], holders)
        return True


class HastyPeer(ClockPeer):
    def __init__(self, name, limits=None):
        super().__init__(name, limits)
        self.nodes = AnswersAtOnce(name)


class StampBelowDestruction(ClockTransaction):
    def _take_registered(self, reply: Registered):
        maximum = self.maximum
        super()._take_registered(reply)
        self.maximum = maximum


class RegistersFirst(ClockTransaction):
    """Registers handles before it blocks, so that receivers do not know that they will come."""

    def _after_probe(self):
        if self._handles():
            self.blocked = dict.fromkeys(self.parcels)
            self._enter("register", self._handles())
        else:
            super()._after_probe()

    def _after_register(self):
        if self._handles():
            self.blocked = {}
            self._enter("block", self.parcels)
        else:
            super()._after_register()

    def _after_block(self):
        self._enter("tick", (self.task.sender,))


class JudgesNodesAtTheBlock(ClockPeer):
    """A node destroyed after the block, but before the message's stamp, still gets it."""

    def _do_sync(self, request):
        return tuple(
            type(reply)(reply.transaction, reply.peer) for reply in super()._do_sync(request)
        )


class TouchesTheOwner(ClockPeer):
    """Asks the owner's clock about a passed handle."""

    def _do_register(self, request):
        self.queue.tick()
        return super()._do_register(request)


# --- kdbus


class LooksPastUncommitted(CounterQueue):
    """The first committed copy is given out, whatever stands before it."""

    def front(self):
        ready = [i for i in self.instances() if i.stamp is not None]
        return (ready[0].stamp, ready[0].contents[0]) if ready else None

    def dequeue(self):
        front = self.front()
        if front is not None:
            token = next(i.token for i in self.instances() if i.stamp is not None)
            self._remove(self._places[token])
        return front


class OneStep(CounterTransaction):
    """The number is taken first, and each copy is ready as soon as it is in."""

    def _after_read(self):
        self.copied = dict.fromkeys(self.parcels)
        self._enter("increment", (COUNTER,))


class CopyAndCommit(CounterPeer):
    def handle(self, request):
        if type(request).__name__ == "Commit":
            self.queue.copy_in(request.transaction, request.stamp.timestamp - 1, request.parcels)
        return super().handle(request)


class NoLowerBound(CounterTransaction):
    """Copies without a number go before everything."""

    def _ask_copy(self, target):
        self.seq_lower = 0
        return super()._ask_copy(target)


class NumbersOutOfTurn(CounterTransaction):
    def _held_back(self):
        return False


class MissesNewHolders(GlobalCounter):
    def _increment(self, request: Increment):
        if request.destroys is not None:
            holders = self.nodes.holders(request.destroys)
            request = Increment(
                request.transaction,
                request.peer,
                request.nodes,
                request.plain,
                request.handles,
                tuple({*request.receivers, *holders}),
                request.destroys,
            )
        return super()._increment(request)
