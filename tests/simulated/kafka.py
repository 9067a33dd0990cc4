"""Brokers of a cluster: who leads, who coordinates, what they answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace as Answer

from tests.simulated.coordinators import Coordinators
from tests.simulated.logs import Log
from tests.simulated.network import DELAYS, no_fate
from tests.simulated.partitions import DENIED_TOPIC, Partitions, View, new_id

LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
DENIED_GROUP, DENIED_ID = 30, 53
NOTHING_KNOWN = ({}, {}, frozenset(), {})
BEHIND_SHARE, BEHIND_SECONDS = 0.3, (0.05, 1.0, 8.0)
"""How many new leaders do not know at first what is committed, and for how long."""


@dataclass(slots=True)
class Broker:
    """One; ``loading_until``: when its coordinators answer again.

    ``cut_off``: what it knew of partitions when it was cut off from the other brokers; ``ids``: of
    topics; ``knew``: of coordinators, of groups' progress, of groups with an open transaction, of
    transactions.
    """

    number: int
    up: bool = True
    loading_until: float = 0.0
    cut_off: dict = field(default_factory=dict)
    ids: dict = field(default_factory=dict)
    knew: tuple = NOTHING_KNOWN


class Kafka(Partitions):
    """The cluster; ``topics`` gives the number of partitions of each."""

    def __init__(self, world, topics, brokers=3):
        self.world = world
        self.brokers = [Broker(number) for number in range(brokers)]
        self.topics = topics
        self.logs = {
            (topic, number): Log(topic, number, world.rng.randrange(brokers))
            for topic, count in topics.items()
            for number in range(count)
        }
        self.ids = {topic: new_id(world.rng) for topic in topics}
        self.former = {}
        self.homes = {}
        self.denied = set()
        self.limits, self.narrowed, self.refused = {}, {}, []
        self.followers_lag = world.rng.random() < 0.5
        self.faults = []
        self.delay = world.rng.choice(DELAYS)
        self.cuts = False
        self.verifies = world.rng.random() < 0.5
        """Whether leaders ask the coordinator about the first batch of a transaction (KIP-890)."""
        self.coordinators = Coordinators(world, self.logs, verifies=self.verifies)

    def fate(self, connection, request):
        """What the faults of now do to a request."""
        fate = no_fate()
        for fault in self.faults:
            fault(connection, request, fate)
        return fate

    def move_leader(self, place, node=None):
        """Have another broker lead a partition."""
        log, others = self.logs[place], self._others(place)
        if others:
            log.lead(self.world.rng.choice(others) if node is None else node)
            if log.entries and self.world.rng.random() < BEHIND_SHARE:
                log.behind = self.world.rng.choice(log.entries).first
                seconds = self.world.rng.choice(BEHIND_SECONDS)
                self.world.at(seconds, lambda: setattr(log, "behind", None))
            self.world.note(f"broker {log.leader} leads {place[0]}-{place[1]}")

    def can_move(self, place):
        """Whether another broker can lead a partition."""
        return bool(self._others(place))

    def _others(self, place):
        return [each.number for each in self._usable() if each.number != self.logs[place].leader]

    def stop(self, number):
        """Take a broker down; others take its place."""
        broker = self.brokers[number]
        broker.up = False
        self.world.note(f"broker {number} is down")
        self._replace(number)

    def start(self, number):
        """Bring it back."""
        broker = self.brokers[number]
        broker.up, broker.cut_off, broker.knew = True, {}, NOTHING_KNOWN
        self.world.note(f"broker {number} is up")

    def back(self, number, fault):
        """Bring it back, and end the fault that came with it."""
        self.start(number)
        self.end(fault)

    def end(self, fault):
        if fault in self.faults:
            self.faults.remove(fault)

    def cut_off(self, number):
        """Cut a broker off from the others: it goes on as if it led what it led."""
        broker = self.brokers[number]
        broker.cut_off = {place: View(log) for place, log in self.logs.items()}
        broker.ids = dict(self.ids)
        there = self.coordinators
        pending = {group for group, some in there.pending.items() if some}
        broker.knew = dict(self.homes), dict(there.offsets), pending, there.known()
        self.world.note(f"broker {number} is cut off from the others")
        self._replace(number)

    def move_coordinator(self, key):
        """Have another broker coordinate."""
        if self._usable():
            home = self.world.rng.choice(self._usable())
            self.homes[key] = home.number
            home.loading_until = self.world.now + self.world.rng.random() * 0.3

    def _usable(self):
        return [broker for broker in self.brokers if broker.up and not broker.cut_off]

    def _replace(self, number):
        for place, log in self.logs.items():
            if log.leader == number:
                self.move_leader(place)
        for key, home in list(self.homes.items()):
            if home == number:
                self.move_coordinator(key)

    def add_partition(self, topic):
        """Give a topic one more partition."""
        number = self.topics[topic]
        self.topics = {**self.topics, topic: number + 1}
        leader = self.world.rng.choice([broker.number for broker in self.brokers])
        self.logs[topic, number] = Log(topic, number, leader)

    def make_again(self, topic):
        """Delete a topic and make it again."""
        self.ids[topic] = new_id(self.world.rng)
        for place, log in list(self.logs.items()):
            if place[0] == topic:
                self.former.setdefault(place, log)
                self.logs[place] = Log(*place, log.leader)

    def handle(self, broker, request, answered):
        """Do what a request asks; ``answered`` gets the answer, perhaps later."""
        kind = type(request).__name__.removesuffix("Request")
        getattr(self, "_" + kind)(broker, request, answered)

    def _home(self, key):
        if key not in self.homes:
            self.homes[key] = self.world.rng.choice([b.number for b in self.brokers if b.up])
        return self.homes[key]

    def _wrong(self, broker, key):
        """Why a broker does not coordinate, 0 where it does."""
        if broker.cut_off:
            return NOT_AVAILABLE
        if self._home(key) != broker.number:
            return NOT_COORDINATOR
        return LOADING if broker.loading_until > self.world.now else 0

    def _deposed(self, broker, name, producer):
        """A transaction as a broker knows it that coordinated it and was cut off; None: it did not."""
        homes, each = broker.knew[0], broker.knew[3].get(name)
        if homes.get((1, name)) != broker.number or each is None:
            return None
        return each if (each.producer, each.epoch) == tuple(producer) else None

    def _has(self, broker, name, producer, places=(), group=None):
        """Whether a deposed coordinator takes it for added: it has nothing to write."""
        each = self._deposed(broker, name, producer)
        if each is None or each.state != "Ongoing":
            return False
        return each.partitions.issuperset(places) and group in {None, *each.groups}

    def _FindCoordinator(self, broker, request, answered):  # noqa: N802
        key = (request.key_type, request.key)
        home = self._home(key)
        answered(Answer(error_code=0, node_id=broker.knew[0].get(key, home)))

    def _InitProducerId(self, broker, request, answered):  # noqa: N802
        name = request.transactional_id
        code = self._wrong(broker, (1, name)) if name is not None else 0
        code = code or (DENIED_ID if "ids" in self.denied else 0)
        producer, epoch = -1, -1
        if not code:
            expected = (request.producer_id, request.producer_epoch)
            expected = expected if None not in expected else (-1, -1)
            code, producer, epoch = self.coordinators.init(
                name, request.transaction_timeout_ms, expected
            )
        answered(Answer(error_code=code, producer_id=producer, producer_epoch=epoch))

    def _AddPartitionsToTxn(self, broker, request, answered):  # noqa: N802
        name = request.v3_and_below_transactional_id
        producer = (request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        topics = request.v3_and_below_topics
        places = [(topic.name, number) for topic in topics for number in topic.partitions]
        code = self._wrong(broker, (1, name)) or (DENIED_TOPIC if "topics" in self.denied else 0)
        code = code or self.coordinators.add(name, producer, places)
        code = 0 if broker.cut_off and self._has(broker, name, producer, places) else code
        results = [
            Answer(
                name=topic.name,
                results_by_partition=[
                    Answer(partition_index=number, partition_error_code=code)
                    for number in topic.partitions
                ],
            )
            for topic in topics
        ]
        answered(Answer(results_by_topic_v3_and_below=results))

    def _AddOffsetsToTxn(self, broker, request, answered):  # noqa: N802
        producer = (request.producer_id, request.producer_epoch)
        code = self._wrong(broker, (1, request.transactional_id))
        name, group = request.transactional_id, request.group_id
        code = code or self.coordinators.add(name, producer, group=group)
        code = 0 if broker.cut_off and self._has(broker, name, producer, group=group) else code
        answered(Answer(error_code=code))

    def _TxnOffsetCommit(self, broker, request, answered):  # noqa: N802
        code = self._wrong(broker, (0, request.group_id))
        code = code or (DENIED_GROUP if "groups" in self.denied else 0)
        ((topic, (place,)),) = [(each.name, each.partitions) for each in request.topics]
        if not code:
            code = self.coordinators.commit_offset(
                request.transactional_id,
                (request.producer_id, request.producer_epoch),
                request.group_id,
                place.committed_offset,
                place.committed_metadata,
            )
        partitions = [Answer(partition_index=0, error_code=code)]
        answered(Answer(topics=[Answer(name=topic, partitions=partitions)]))

    def _OffsetFetch(self, broker, request, answered):  # noqa: N802
        group, stable = request.group_id, request.require_stable
        code = self._wrong(broker, (0, group))
        homes, offsets, pending, _ = broker.knew
        if broker.cut_off and homes.get((0, group)) == broker.number and group not in pending:
            code, inner = 0, 0  # reads go without the others
            offset, metadata = offsets.get(group, (-1, ""))
        elif code:
            inner, offset, metadata = 0, -1, ""
        else:
            inner, offset, metadata = self.coordinators.offset(group, stable=stable)
        partition = Answer(
            partition_index=0, committed_offset=offset, metadata=metadata, error_code=inner
        )
        topic = Answer(name=request.topics[0].name, partitions=[partition])
        answered(Answer(error_code=code, topics=[topic]))

    def _EndTxn(self, broker, request, answered):  # noqa: N802
        producer = (request.producer_id, request.producer_epoch)
        code = self._wrong(broker, (1, request.transactional_id))
        code = code or self.coordinators.end(
            request.transactional_id, producer, commit=request.committed
        )
        if broker.cut_off:
            known = self._deposed(broker, request.transactional_id, producer)
            ended = "CompleteCommit" if request.committed else "CompleteAbort"
            code = 0 if known is not None and known.state == ended else code
        answered(Answer(error_code=code))
