"""Fixtures that need a real Kafka.

In this order: the broker that SEQUENCER_BOOTSTRAP_SERVERS (or KAFKA_BOOTSTRAP_SERVERS) names; a
container where SEQUENCER_TEST_CONTAINERS=1 and a Docker engine answers; else an embedded broker,
started once for the whole run.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from streaming.kafka.embedded import EmbeddedBroker
from tests import secure_broker as secure
from tests import warm

GIVEN = ("SEQUENCER_BOOTSTRAP_SERVERS", "KAFKA_BOOTSTRAP_SERVERS")
CONTAINERS = "SEQUENCER_TEST_CONTAINERS"
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Tests are short: what Java's second compiler would win, it would not live to give back."""

PROPERTIES = {
    "log.retention.ms": "-1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
"""Old records stay, also in topics that the service makes: some histories are of years ago. A
transaction that took too long is ended a second later; by default after up to ten."""


def pytest_configure() -> None:
    os.environ.setdefault("JAVA_TOOL_OPTIONS", QUICK_JAVA)


@pytest.fixture(scope="session", autouse=True)
def _ends_the_warm_process() -> Iterator[None]:
    yield
    warm.end()


@dataclass(frozen=True, slots=True)
class Broker:
    """Where a Kafka for tests is."""

    bootstrap: str


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A real Kafka for the whole run; tests keep apart by ``topic_prefix``."""
    given = next(filter(None, map(os.environ.get, GIVEN)), None)
    if given:
        yield Broker(given)
    elif os.environ.get(CONTAINERS) == "1":
        yield from _container()
    else:
        with EmbeddedBroker(properties=PROPERTIES) as embedded:
            yield Broker(embedded.bootstrap)


@pytest.fixture(scope="session")
def secure_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[secure.SecureBroker]:
    """An embedded broker with TLS and SASL, started once, by the first test that wants it."""
    if secure.missing():
        pytest.skip(f"certificates are made with {secure.missing()}, which is not installed")
    with secure.running(tmp_path_factory.mktemp("secure")) as started:
        yield started


@pytest.fixture
def topic_prefix(request: pytest.FixtureRequest) -> str:
    """Begins the names of a test's topics; unique to the test, also on a broker that others use."""
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)[:40]
    return f"{name}-{uuid.uuid4().hex[:8]}."


def _container() -> Iterator[Broker]:
    import docker
    from testcontainers.kafka import KafkaContainer

    try:
        docker.from_env().ping()
    except docker.errors.DockerException as error:
        pytest.skip(f"{CONTAINERS}=1, but no Docker engine answers: {error}")
    with KafkaContainer().with_kraft() as container:
        yield Broker(container.get_bootstrap_server())
