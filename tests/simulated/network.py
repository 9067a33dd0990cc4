"""What kafka-python's connections are to the service, between simulated processes and brokers.

A request goes to a broker on a connection of its own client and broker; a broker answers in the
order in which it was asked on a connection, but connections overtake each other. Bytes that a
client sent still arrive when it has given up on them.
"""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace

from kafka.errors import KafkaConnectionError, KafkaTimeoutError, NodeNotReadyError
from kafka.future import Future

from tests.simulated.world import TURN_SECONDS, current, wait

REQUEST_SECONDS = 30.0
"""Until a client gives up on an answer (`request.timeout.ms`)."""
DELAYS = (0.0005, 0.005, 0.02)
"""Seconds that a message is on its way, on the average; one of them in each history."""
DOWN_SECONDS = 0.05
STAYS_SHARE = 0.8
"""Of requests to any broker: to one that is connected, as kafka-python sends them."""


class Connection:
    """From one client to one broker."""

    def __init__(self, network, node):
        self.network, self.world = network, network.process.world
        self.kafka, self.node = network.kafka, node
        self.open = True
        self.asked = {}
        self.number = 0
        self.arrives = self.answers_at = self.world.now
        self.waiting, self.busy = deque(), False

    def ask(self, request, seconds):
        """Send a request; a future of its answer, which may take these seconds."""
        future = Future()
        self.number += 1
        number = self.number
        self.asked[number] = future
        fate = self.kafka.fate(self, request)
        self.arrives = max(self.arrives, self.world.now) + self._delay() + fate.held_s
        arrive = once(lambda: self._arrived(number, request, fate))
        self.world.at(self.arrives - self.world.now, arrive)
        if fate.held is not None:
            fate.held.append(arrive)
        self.network.process.post(seconds, lambda: self._late(number, seconds))
        if fate.cut_s is not None:
            self.world.at(fate.cut_s, lambda: self.close("the connection was cut"))
        return future

    def close(self, why):
        """End it; whoever waits for an answer hears so."""
        if not self.open:
            return
        self.open = False
        self.network.connections.pop(self.node, None)
        asked, self.asked = self.asked, {}
        for future in asked.values():
            self.network.hear(future, None, KafkaConnectionError(why))

    def _delay(self):
        return self.world.rng.expovariate(1 / self.kafka.delay)

    def _late(self, number, seconds):
        if number in self.asked and self.open:
            self.close(f"no answer for {seconds:.1f} s")

    def _arrived(self, number, request, fate):
        self.waiting.append((number, request, fate))
        if not self.busy:
            self._next()

    def _next(self):
        """Have the broker take the next request; it answers before it takes another."""
        if not self.waiting:
            self.busy = False
            return
        self.busy = True
        number, request, fate = self.waiting.popleft()
        broker = self.kafka.brokers[self.node]
        if not broker.up:
            self.busy = False
            self.world.at(DOWN_SECONDS, lambda: self.close("the broker is down"))
            return

        def answered(answer):
            self.world.at(fate.slow_s, lambda: self._answer(number, answer, fate))
            self._next()

        self.kafka.handle(broker, request, answered)

    def _answer(self, number, answer, fate):
        if fate.lost or not self.open or not self.kafka.brokers[self.node].up:
            self.close("the connection was cut")
            return
        self.answers_at = max(self.answers_at, self.world.now) + self._delay()

        def heard():
            future = self.asked.pop(number, None)
            if future is not None:
                self.network.hear(future, answer, None)

        self.world.at(self.answers_at - self.world.now, heard)


class Network:
    """The loop of one client (`kafka.net.selector.NetworkSelector`)."""

    kafka = None
    """The cluster of the history that runs."""

    def __init__(self, **_settings):
        self.process = current().process
        self.connections = {}
        self.inbox = deque()
        self.waiter = None
        self.closed = False

    def hear(self, future, answer, error):
        """An answer or an error has come; the client sees it when it looks."""
        if self.process.alive and not self.closed:
            self.inbox.append((future, answer, error))
            if self.waiter is not None:
                self.waiter.wake()

    def poll(self, timeout_ms=0):
        """Look at what came; wait for something if there is nothing."""
        if not self.inbox:
            self.waiter = current()
            wait(max(timeout_ms / 1000, TURN_SECONDS))
            self.waiter = None
        while self.inbox:
            future, answer, error = self.inbox.popleft()
            if future.is_done:
                continue
            if error is None:
                future.success(answer)
            else:
                future.failure(error)

    async def sleep(self, seconds):
        """Wait within a coroutine."""
        future = Future()
        self.process.post(seconds, lambda: self.hear(future, None, None))
        await future

    def close(self):
        """Hear nothing more."""
        self.closed = True


class Manager:
    """The connections of one client (`kafka.net.manager.KafkaConnectionManager`)."""

    last_error = None

    def __init__(self, network, **_settings):
        self.network = network
        self.bootstrapped = False
        self.config = {"request_timeout_ms": REQUEST_SECONDS * 1000}
        self.cluster = Cluster()
        self.closed = False

    def bootstrap(self, timeout_ms):
        """Find a broker that is up."""
        deadline = self.network.process.world.now + timeout_ms / 1000
        while not any(broker.up for broker in self.network.kafka.brokers):
            if self.network.process.world.now > deadline:
                raise KafkaTimeoutError("Unable to bootstrap")
            wait(DOWN_SECONDS)
        self.bootstrapped = True

    def send(self, request, node=None, request_timeout_ms=REQUEST_SECONDS * 1000):
        """Send a request; a future of its answer."""
        network = self.network
        if self.closed:
            return Future().failure(KafkaConnectionError("closed"))
        if node is None:
            up = [number for number, broker in enumerate(network.kafka.brokers) if broker.up]
            if not up:
                return Future().failure(NodeNotReadyError("no broker"))
            known = [number for number in network.connections if number in up]
            stays = known and network.process.world.rng.random() < STAYS_SHARE
            node = network.process.world.rng.choice(known if stays else up)
        if node not in network.connections:
            network.connections[node] = Connection(network, node)
        return network.connections[node].ask(request, request_timeout_ms / 1000)

    def run(self, work, *arguments):
        """Run a coroutine to its end."""
        coroutine = work(*arguments)
        try:
            while True:
                future = coroutine.send(None)
                while not future.is_done:
                    self.network.poll(1_000)
        except StopIteration as end:
            return end.value

    def close(self):
        """Close every connection."""
        self.closed = True
        for connection in list(self.network.connections.values()):
            connection.close("closed")


class Cluster:
    """What the client knows of topics (`kafka.cluster.ClusterMetadata`)."""

    def __init__(self):
        self.partitions = {}

    def update_metadata(self, answer):
        """Note the partitions of topics."""
        for topic in answer.topics:
            self.partitions[topic.name] = {each.partition_index for each in topic.partitions}

    def partitions_for_topic(self, topic):
        """The numbers of a topic's partitions."""
        return self.partitions.get(topic)

    def add_coordinator(self, answer, *_key, **_more):
        """The node that a coordinator is on."""
        return answer.node_id


def no_fate():
    """What becomes of a request where no fault is: nothing."""
    return SimpleNamespace(held_s=0.0, slow_s=0.0, lost=False, cut_s=None, held=None)


def once(act):
    """Call it the first time only."""
    left = [act]

    def called():
        if left:
            left.pop()()

    return called
