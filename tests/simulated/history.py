"""What users send, and which faults come: all of it from the seed."""

from __future__ import annotations

import dataclasses
from functools import partial

from sequencer import LinearLabels
from sequencer.channels import Rules
from streaming.disciplines.channels.operator import ChannelOperator
from streaming.disciplines.channels.pack import arrival_schema, make_packs
from streaming.disciplines.channels.plan import ChannelPlan
from streaming.disciplines.state_keys import shard_keys
from tests.simulated.kafka import Kafka
from tests.simulated.network import Network
from tests.simulated.spark import Service
from tests.simulated.world import BEGAN_MS, World, simulated_time

FAULTS_SECONDS = 6.0
"""Faults begin within this time, the last of them perhaps at its end."""
HEALED_SECONDS = 12.0
LIMIT_SECONDS = 400.0
"""By then everything must have been delivered, once the faults have ended."""
INPUT_PARTITIONS = 2


@dataclasses.dataclass
class Sent:
    """One record that a user sent: where it lies, and what it says."""

    place: tuple
    channel: bytes
    label: int
    value: bytes


class History:
    """One run of the service; ``faults`` are those that come, as (moment, what it is)."""

    def __init__(self, seed, *, keep=None):
        self.seed, self.world = seed, World(seed)
        rng = self.world.rng
        topics = {"in": INPUT_PARTITIONS, "commands": 1, "out": 3, "rejects": 1, "events": 1}
        self.kafka = Kafka(self.world, topics)
        self.plan = channel_plan(shards=rng.choice([2, 4]))
        making = partial(
            make_packs,
            keys=shard_keys(self.plan.shards, self.plan.state_partitions),
            schema=arrival_schema(self.plan),
            label="label",
            inputs=1,
            blocks=True,
        )
        self.service = Service(self.world, self.kafka, self.plan, making, ChannelOperator)
        self.sent = []
        self._send()
        faults = [self._fault() for _ in range(rng.choice([0, 1, 2, 3, 5]))]
        self.faults = [each for n, each in enumerate(faults) if keep is None or n in keep]
        self.healed = False

    def _send(self):
        """Labels of each channel in some disorder, with copies, over the first seconds."""
        rng = self.world.rng
        pause, most = rng.choice([(0.8, 8), (2.0, 40)])
        channels, longest = rng.choice([(4, 40), (8, 20), (16, 10)])
        for number in range(channels):
            channel = f"c{number}".encode()
            labels = list(range(rng.randrange(1, longest)))
            labels += rng.sample(labels, min(len(labels), rng.randrange(3)))
            labels.sort(key=lambda label: label + rng.random() * rng.choice([0, 3, 8]))
            place = ("in", number % INPUT_PARTITIONS)
            moment = rng.random() * 3
            while labels:
                some = labels[: rng.randrange(1, most + 1)]
                labels = labels[len(some) :]
                self.world.at(moment, partial(self._put, place, channel, some))
                moment += rng.expovariate(1 / pause)

    def _put(self, place, channel, labels):
        log = self.kafka.logs[place]
        records = []
        for label in labels:
            value = f"{channel.decode()}:{label}:{len(self.sent)}".encode()
            offset = log.end + len(records)
            self.sent.append(Sent((*place, offset), channel, label, value))
            stamp = BEGAN_MS + round(self.world.now * 1000)
            records.append((stamp, channel, value, [("label", str(label).encode())]))
        log.fill(records)

    def _fault(self):
        rng = self.world.rng
        return rng.random() * FAULTS_SECONDS, rng.choice(FAULTS)(self, rng)

    def run(self):
        """Run it to its end; whether everything was read, the service being idle then."""
        Network.kafka = self.kafka
        self.service.start()
        for moment, (text, act) in self.faults:
            self.world.at(moment, partial(self._happen, text, act))
        self.world.at(HEALED_SECONDS, self._heal)
        try:
            with simulated_time(self.world):
                self.world.run(lambda: self._done() or self.world.now > LIMIT_SECONDS)
        finally:
            self.finished = self._done()
            self.world.end()
        return self.finished

    def _happen(self, text, act):
        self.world.note(text)
        act()

    def _heal(self):
        """End every fault: brokers are up, the network is whole."""
        self.healed = True
        self.kafka.faults.clear()
        for broker in self.kafka.brokers:
            broker.up = True

    def _done(self):
        commits = self.service.storage.commits
        if not self.healed or not commits:
            return False
        if any(log.open for log in self.kafka.logs.values()):
            return False  # a transaction's markers are still on their way
        end, _ = self.service.storage.offsets[max(commits)]
        return all(
            end.get(topic, {}).get(str(number), 0) >= log.end
            for (topic, number), log in self.kafka.logs.items()
            if topic in self.plan.reads
        )


def channel_plan(shards, **more):
    """A plan of one channel pipeline."""
    return ChannelPlan(
        service="s",
        pipeline="p",
        inputs=("in",),
        commands="commands",
        output="out",
        rejects="rejects",
        events="events",
        partitions={"out": 3, "rejects": 1, "events": 1},
        shards=shards,
        state_partitions=2,
        rules=Rules(LinearLabels()),
        compression="lz4",
        producer={"bootstrap.servers": "simulated:9092"},
        **more,
    )


def kill_driver(history, _rng):
    """The driver dies; another one starts while workers of the old one still run."""

    def act():
        history.service.driver.kill()

    return "kill the driver", act


def kill_worker(history, rng):
    """A worker dies."""
    stage = rng.choice(["source", "operator", "sink", "sink"])

    def act():
        alive = [each for each in history.service.driver.workers[stage] if each.alive]
        if alive:
            history.world.rng.choice(alive).kill()

    return f"kill a {stage} worker", act


def kill_busy(history, rng):
    """A worker dies in the middle of a task."""
    stage = rng.choice(["operator", "sink"])

    def act(tries=2_000):
        busy = [w for w in history.service.driver.workers[stage] if w.alive and w.busy]
        if busy:
            history.world.rng.choice(busy).kill()
        elif tries and not history.healed:
            history.world.at(0.001, lambda: act(tries - 1))

    return f"kill a {stage} worker at work", act


def pause(history, rng):
    """A process stands still, and goes on when others have taken its place."""
    seconds = rng.choice([1, 5, 35, 75])
    stage = rng.choice([None, "operator", "sink", "sink"])
    killed = rng.random() < 0.5

    def act():
        driver = history.service.driver
        workers = [each for each in driver.workers[stage] if each.alive] if stage else []
        target = history.world.rng.choice(workers) if workers else driver
        target.pause(seconds)
        if killed:  # somebody takes the service for dead, and starts it again
            history.world.at(rng.random() * 2, driver.kill)

    return f"pause {stage or 'the driver'} for {seconds} s", act


def move_leader(history, rng):
    """A partition gets another leader."""
    place = rng.choice(sorted(history.kafka.logs))
    return f"move the leader of {place}", lambda: history.kafka.move_leader(place)


def restart_broker(history, rng):
    """A broker goes down and comes back."""
    number, seconds = rng.randrange(3), rng.random() * 4

    def act():
        if sum(broker.up for broker in history.kafka.brokers) > 1:
            history.kafka.stop(number)
            history.world.at(seconds, lambda: history.kafka.start(number))

    return f"restart broker {number}", act


def move_coordinator(history, _rng):
    """A coordinator moves."""

    def act():
        if history.kafka.homes:
            key = history.world.rng.choice(sorted(history.kafka.homes))
            history.kafka.move_coordinator(key)

    return "move a coordinator", act


def bad_network(history, rng):
    """For some seconds some requests are held back, answered late, lost, or cut off."""
    seconds, chance = rng.random() * 5, rng.choice([0.02, 0.1, 0.3])
    kinds = rng.sample(["held", "slow", "lost", "cut"], rng.randrange(1, 4))
    only = rng.choice([None, None, "EndTxn", "Produce", "TxnOffsetCommit", "AddPartitionsToTxn"])

    def fault(_connection, request, fate):
        name = type(request).__name__.removesuffix("Request")
        if (only is not None and name != only) or rng.random() >= chance:
            return
        kind = rng.choice(kinds)
        if kind == "held":
            fate.held_s = rng.choice([0.2, 2.0, 10.0])
            fate.cut_s = rng.random() * fate.held_s if rng.random() < 0.5 else None
        elif kind == "slow":
            fate.slow_s = rng.choice([0.05, 0.5, 3.0])
        elif kind == "lost":
            fate.lost = True
        else:
            fate.cut_s = rng.random() * 0.01

    def act():
        history.kafka.faults.append(fault)
        history.world.at(
            seconds, lambda: fault in history.kafka.faults and history.kafka.faults.remove(fault)
        )

    return f"a bad network ({', '.join(kinds)}; {only or 'all requests'})", act


def slow_answer_and_move(history, rng):
    """A partition's leader moves while a request to it is unanswered."""
    name, seconds = rng.choice(["Produce", "Produce", "Fetch"]), rng.choice([0.15, 0.3])
    left = [rng.choice([1, 3])]

    def fault(_connection, request, fate):
        if type(request).__name__ != name + "Request" or not left[0]:
            return
        left[0] -= 1
        fate.slow_s = seconds * (0.5 + rng.random())
        topics = request.topic_data if name == "Produce" else request.topics
        names = {each.name if name == "Produce" else each.topic for each in topics}
        moment = rng.random() * seconds
        for place in sorted(history.kafka.logs):
            if place[0] in names:
                history.world.at(moment, partial(history.kafka.move_leader, place))

    return f"a slow {name} while leaders move", lambda: history.kafka.faults.append(fault)


def late_request(history, rng):
    """One request of a transaction arrives long after its client asked again."""
    name = rng.choice(["EndTxn", "EndTxn", "AddPartitionsToTxn", "TxnOffsetCommit", "Produce"])
    held_s, left = rng.choice([0.3, 1.0, 2.0, 5.0]), [1]

    def fault(_connection, request, fate):
        if type(request).__name__ == name + "Request" and left:
            left.pop()
            fate.held_s, fate.cut_s = held_s, rng.random() * 0.02

    return f"a late {name}", lambda: history.kafka.faults.append(fault)


FAULTS = (
    *(kill_driver, kill_worker, kill_busy, kill_busy, pause),
    *(move_leader, restart_broker, move_coordinator, bad_network, bad_network),
    *(slow_answer_and_move, slow_answer_and_move, late_request, late_request),
)
