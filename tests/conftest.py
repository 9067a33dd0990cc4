"""Fixtures that need a real Kafka.

In this order: the broker that SEQUENCER_BOOTSTRAP_SERVERS (or KAFKA_BOOTSTRAP_SERVERS) names; a
container where a Docker engine answers; else an embedded broker. It is started once for the whole
run, also where that has several processes (pytest -n).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from streaming.spark.class_archive import RECORDING
from tests import containers, seeds, warm
from tests import secure_broker as secure
from tests.service_helpers import keep_classes

GIVEN = ("SEQUENCER_BOOTSTRAP_SERVERS", "KAFKA_BOOTSTRAP_SERVERS")
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Tests are short: what Java's second compiler would win, it would not live to give back."""

PROPERTIES = {
    "log.retention.ms": "-1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
"""Old records stay, also in topics that the service makes: some histories are of years ago. A
transaction that took too long is ended a second later; by default after up to ten."""

# A shared machine may stop a test for a while; how long an example takes says nothing.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

ROOT = Path(__file__).parents[1]
SHARED_BY_TESTS = ("broker", 'scope="module"', "@cache", "lru_cache")
"""What a module has whose tests gain from running in one process."""

SHARED = "broker"
"""Where the process that hands out the tests tells the others of their broker."""


def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault("JAVA_TOOL_OPTIONS", QUICK_JAVA)
    if SHARED in getattr(config, "workerinput", {}):  # an archive of classes was made before
        os.environ.setdefault(RECORDING, "no")
    seeds.load_profile()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Before a process starts that runs tests: it gets the one broker of all, and Java's classes."""
    if named_broker():
        return
    if not hasattr(node.config, SHARED):
        stack = ExitStack()
        bootstrap = stack.enter_context(containers.kafka(PROPERTIES))
        node.config.add_cleanup(stack.close)
        keep_classes(bootstrap)
        setattr(node.config, SHARED, bootstrap)
    node.workerinput[SHARED] = getattr(node.config, SHARED)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules that need Kafka come first: they take longest, and the short ones fill the end."""
    kafka = {item.path for item in items if "broker" in item.fixturenames}
    items.sort(key=lambda item: item.path not in kafka)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    config.option.loadscopereorder = False
    return ByModule(config, log)


class ByModule(LoadScopeScheduling):
    """Hands out tests module by module, in the order in which they were collected.

    Modules that share nothing among their tests are handed out test by test, whatever its
    parameters: they come last, and at the end no process is left with a whole module.
    """

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        text = text_of(module)
        if "secure_broker" in text:
            return "secure"  # the broker with passwords is started in one process
        shares = any(word in text for word in SHARED_BY_TESTS)
        return module if shares else nodeid.partition("[")[0]


@cache
def text_of(module: str) -> str:
    """The text of a module of tests, as it is named in the names of its tests."""
    return (ROOT / module).read_text()


@pytest.fixture(scope="session", autouse=True)
def _ends_the_warm_process() -> Iterator[None]:
    yield
    warm.end()


@dataclass(frozen=True, slots=True)
class Broker:
    """Where a Kafka for tests is."""

    bootstrap: str


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A real Kafka for the whole run; tests keep apart by ``topic_prefix``."""
    named = named_broker() or getattr(request.config, "workerinput", {}).get(SHARED)
    if named:
        yield Broker(named)
    else:
        with containers.kafka(PROPERTIES) as bootstrap:
            yield Broker(bootstrap)


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


def named_broker() -> str | None:
    """The broker that the environment names."""
    return next(filter(None, map(os.environ.get, GIVEN)), None)
