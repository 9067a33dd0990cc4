"""Faults of the network between a service and the brokers, by the proxies before them."""

import time
from contextlib import contextmanager

from streaming.kafka.embedded import EmbeddedBroker
from tests.chaos.fault import Fault
from tests.kafka_cluster import KafkaCluster
from tests.proxied import ANSWER
from tests.proxies import hold, lose

SECONDS = 20
LONG_SECONDS = 75
"""Longer than a transaction may take."""
SLOW_SECONDS = 0.2
CUTS = 10
ONE_CONNECTION, ONE_BROKER, ALL = "of one connection", "of one broker", "of all"
SCOPES = {ONE_CONNECTION: EmbeddedBroker, ONE_BROKER: KafkaCluster, ALL: EmbeddedBroker}
"""Of what."""


@contextmanager
def rule(place, scope, act, *, answers, api=None):
    """A rule of the proxies that ends with this; ``act`` as for `Proxies.add`."""
    chosen = []

    def on_one(added, connection, message):
        """The connection that writes next is the one."""
        if not chosen and message.api in ("Produce", "EndTxn"):
            chosen.append(connection)
        return connection not in chosen or act(added, connection, message)

    node = place.rng.choice(list(place.kafka.brokers)) if scope == ONE_BROKER else None
    act_there = on_one if scope == ONE_CONNECTION else act
    added = place.proxies.add(act_there, api, answers=answers, node=node)
    try:
        yield added
    finally:
        added.release()
        place.proxies.rules.remove(added)


def slow(added, _connection, _message):
    """Each message takes longer."""
    added.released.wait(SLOW_SECONDS)
    return True


def one_way(scope, act, *, answers):
    """A fault in one direction."""

    @contextmanager
    def fault(place):
        with rule(place, scope, act, answers=answers) as added:
            yield
            assert added.seen, f"no {added.direction} passed"

    return fault


def slow_link(scope):
    """Both directions."""

    @contextmanager
    def fault(place):
        with (
            rule(place, scope, slow, answers=False),
            rule(place, scope, slow, answers=True) as added,
        ):
            yield
            assert added.seen, f"no {ANSWER} passed"

    return fault


def cut(scope):
    """All connections end, again and again."""

    @contextmanager
    def fault(place):
        for _ in range(CUTS):
            node = place.rng.choice(list(place.kafka.brokers)) if scope == ONE_BROKER else None
            place.proxies.cut(node)
            time.sleep(place.rng.uniform(0.1, 1.5))
        yield

    return fault


def away(scope):
    """Nobody is reached."""

    @contextmanager
    def fault(place):
        node = place.rng.choice(list(place.kafka.brokers)) if scope == ONE_BROKER else None
        with place.proxies.away(node):
            yield

    return fault


def of(scope):
    """The faults of one scope."""
    kafka = SCOPES[scope]
    held, back = one_way(scope, hold, answers=False), one_way(scope, hold, answers=True)
    lost = one_way(scope, lose, answers=True)
    yield from (
        Fault(f"requests {scope} held back {SECONDS} s", held, seconds=SECONDS, kafka=kafka),
        Fault(f"answers {scope} held back {SECONDS} s", back, seconds=SECONDS, kafka=kafka),
        Fault(f"answers {scope} lost for {SECONDS} s", lost, seconds=SECONDS, kafka=kafka),
        Fault(f"link {scope} slow", slow_link(scope), seconds=SECONDS, kafka=kafka),
    )
    if scope != ONE_CONNECTION:
        yield Fault(f"connections {scope} cut {CUTS} times", cut(scope), kafka=kafka)
        yield Fault(f"no way {scope} for {SECONDS} s", away(scope), seconds=SECONDS, kafka=kafka)


FAULTS = (
    *(each for scope in SCOPES for each in of(scope)),
    *(
        Fault(
            f"{what} held back {LONG_SECONDS} s",
            one_way(ALL, hold, answers=answers),
            seconds=LONG_SECONDS,
        )
        for what, answers in (("requests", False), ("answers", True))
    ),
)
