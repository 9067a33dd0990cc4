"""Faults of the brokers: three of them, three replicas, two of which must have what is acknowledged."""

import os
import signal
from collections import Counter
from contextlib import contextmanager

from tests.chaos.fault import Fault
from tests.chaos.network import ALL, hold, rule
from tests.chaos.processes import STILL_SECONDS
from tests.kafka_cluster import KafkaCluster

AWAY_SECONDS = 15
"""Longer than Kafka's controllers wait for a broker."""
TRANSACTIONS = "__transaction_state"


def any_broker(place):
    """Some broker's number."""
    return place.rng.choice(list(place.kafka.brokers))


def coordinator(place):
    """The broker that coordinates most of the transactions."""
    return Counter(place.kafka.leaders(TRANSACTIONS).values()).most_common(1)[0][0]


def killed(choose):
    """Kill -9 of a broker, which is started again at the end."""

    @contextmanager
    def act(place):
        broker = place.kafka.brokers[choose(place)]
        broker.kill()
        try:
            yield
        finally:
            broker.start()

    return act


def still(choose):
    """SIGSTOP of a broker, SIGCONT at the end."""

    @contextmanager
    def act(place):
        pid = place.kafka.brokers[choose(place)].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    return act


@contextmanager
def rolling_restart(place):
    """One after the other, each when the one before is whole again; at the end the preferred lead."""
    for broker in place.kafka.brokers.values():
        broker.stop()
        place.tend()
        broker.start()
        place.kafka.until_in_sync()
        place.tend()
    place.kafka.elect_all_preferred()
    yield


@contextmanager
def leaders_move(place):
    """Leaders move away from a broker whose answers are held back, and back to it."""
    node = any_broker(place)
    with rule(place, ALL, hold, answers=True, api="Produce") as held:
        held.node = node
        held.wait()
        place.kafka.brokers[node].stop()
        place.kafka.brokers[node].start()
        place.kafka.elect_all_preferred()
        place.tend()
    yield


FAULTS = tuple(
    Fault(name, act, seconds=seconds, kafka=KafkaCluster)
    for name, act, seconds in (
        ("a broker killed", killed(any_broker), AWAY_SECONDS),
        ("the coordinator's broker killed", killed(coordinator), AWAY_SECONDS),
        *(
            (f"a broker stands still for {seconds} s", still(any_broker), seconds)
            for seconds in STILL_SECONDS
        ),
        *(
            (f"the coordinator's broker stands still for {seconds} s", still(coordinator), seconds)
            for seconds in STILL_SECONDS
        ),
        ("rolling restart", rolling_restart, 0),
        ("leaders move while answers are held back", leaders_move, 0),
    )
)
