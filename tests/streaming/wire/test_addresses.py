"""Which addresses lead to a cluster where others are silent, gone, or another cluster's by now."""

import time
import uuid
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest
from kafka.errors import (
    IncompatibleBrokerVersion,
    KafkaError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
)
from kafka.protocol.metadata import MetadataRequest

from streaming.kafka import choice, client_settings, embedded
from streaming.wire import bootstrap, known, sockets
from streaming.wire.brokers import Brokers
from tests.addresses import Names, dropping, hanging, text
from tests.proxies import Proxies

SECONDS = 10
"""Of which one silent address must not take all."""
SHORT_SECONDS = 2
TRIES = 6
"""kafka-python begins with an address by chance; so often it does not find the live one of three."""
METADATA = partial(MetadataRequest, topics=[], max_version=9)


@pytest.fixture
def names(monkeypatch):
    return Names(monkeypatch)


def address_of(broker):
    host, _, port = broker.bootstrap.split(",")[0].rpartition(":")
    return host, int(port)


@contextmanager
def opened(*addresses):
    brokers = Brokers({"bootstrap_servers": [*addresses]})
    try:
        yield brokers
    finally:
        brokers.close()


def cluster_of(brokers, seconds=SECONDS):
    brokers.connect(seconds)
    return brokers.ask(METADATA, lambda _: (), seconds=seconds).cluster_id


@pytest.mark.parametrize("silence", [dropping, hanging])
def test_silent_addresses_do_not_take_the_time_of_the_others(broker, silence):
    with ExitStack() as stack:
        silent = [text(stack.enter_context(silence())) for _ in range(2)]
        for _ in range(TRIES):
            with opened(*silent, broker.bootstrap) as brokers:
                assert cluster_of(brokers)


def test_a_controller_among_the_addresses_does_not_end_the_search(foreign):
    """It answers, but not this; alone it is said at once."""
    controller = f"127.0.0.1:{foreign.controller_port}"
    for addresses in ([controller, foreign.bootstrap], [foreign.bootstrap, controller]):
        for _ in range(TRIES):
            with opened(*addresses) as brokers:
                brokers.connect(SECONDS)
    with opened(controller) as brokers, pytest.raises(IncompatibleBrokerVersion):
        brokers.connect(SECONDS)


def test_versions_of_a_controller_that_lost_the_search_are_no_broker_s(foreign):
    """It ends late; kafka-python would take its versions of requests for those of all."""
    controller = f"127.0.0.1:{foreign.controller_port}"
    with opened(controller, foreign.bootstrap) as brokers:
        brokers.connect(SECONDS)
        with opened(controller) as other, pytest.raises(IncompatibleBrokerVersion):
            other.connect(SECONDS)
        brokers.manager.broker_version_data = other.manager.broker_version_data
        assert cluster_of(brokers)


def test_a_refusal_says_more_than_that_an_address_is_no_broker():
    turns = bootstrap._Turns(["a", "b", "c"], [], time.monotonic() + SECONDS)
    refused, other = SaslAuthenticationFailedError("no"), IncompatibleBrokerVersion("no broker")
    for node, each in (("a", other), ("b", refused), ("c", other)):
        assert not turns.are_over()
        turns.note_failure(node, each)
    assert turns.are_over()
    assert turns.refusal is refused


def test_known_brokers_wait_for_a_listed_address_that_is_slow(broker, names, foreign):
    """What is listed decides, as where its name leads to another cluster by now."""
    with Proxies(foreign.bootstrap) as proxies:
        host, _, port = proxies.bootstrap.split(",")[0].rpartition(":")
        name = f"{uuid.uuid4().hex}.example", 9092
        names.of[name] = [address_of(broker)]
        with opened(text(name)) as brokers:
            cluster = cluster_of(brokers)
            names.of[name] = [(host, int(port))]
            late = proxies.delay(2 * sockets.OTHERS_WAIT_SECONDS, "ApiVersions", answers=True)
            brokers.reset()
            brokers.connect(SECONDS)
            assert len(late.seen) == 1
            assert brokers.manager.cluster.cluster_id != cluster
            late.release()


def test_if_all_addresses_are_silent_the_limit_holds():
    with (
        dropping() as one,
        hanging() as other,
        opened(text(one), text(other)) as brokers,
        pytest.raises(KafkaTimeoutError, match="timed out"),
    ):
        brokers.connect(SHORT_SECONDS)


def test_an_address_that_answers_late_still_counts(broker):
    """The search asks the next address after a while, and does not give up the one before."""
    with Proxies(broker.bootstrap) as proxies, dropping() as silent:
        late = proxies.delay(2 * sockets.OTHERS_WAIT_SECONDS, "ApiVersions", answers=True)
        with opened(proxies.bootstrap, text(silent)) as brokers:
            brokers.connect(SECONDS)
            assert len(late.seen) == 1
            late.release()


def test_of_several_addresses_of_a_name_a_silent_one_does_not_hide_the_others(broker, names):
    """A broker's, too: proxies name themselves as brokers, under the address that is listed."""
    with Proxies(broker.bootstrap) as proxies, ExitStack() as stack:
        host, _, port = proxies.bootstrap.split(",")[0].rpartition(":")
        listed = host, int(port)
        silent = [stack.enter_context(dropping(f"127.0.0.{n}", int(port))) for n in (2, 3)]
        names.of[listed] = [*silent, listed]
        with opened(text(listed)) as brokers:
            assert cluster_of(brokers)
        assert set(silent) <= sockets._silent
        names.of[listed] = silent
        with opened(text(listed)) as brokers, pytest.raises(KafkaError, match="timed out"):
            brokers.connect(SHORT_SECONDS)
        names.of[listed] = [silent[0], listed]
        with opened(text(listed)) as brokers:
            assert cluster_of(brokers)
        assert listed not in sockets._silent


def test_silent_addresses_are_forgotten_when_they_are_too_many(names, monkeypatch):
    monkeypatch.setattr(sockets, "SILENT_MAX", 1)
    with dropping() as one, dropping() as other:
        names.of["both.example", 1] = [one, other]
        with opened("both.example:1") as brokers, pytest.raises(KafkaError):
            brokers.connect(SHORT_SECONDS)
    assert len(sockets._silent) == 1


@pytest.fixture
def listed(broker, names):
    """A name of our own for the broker, which may lead elsewhere later."""
    name = f"{uuid.uuid4().hex}.example", 9092
    names.of[name] = [address_of(broker)]
    return name


def test_brokers_that_are_known_are_asked_when_no_listed_address_is_left(names, listed):
    with opened(text(listed)) as brokers:
        cluster = cluster_of(brokers)
        names.of[listed] = []
        brokers.reset()
        assert cluster_of(brokers) == cluster
    with opened(text(listed)) as others:
        assert cluster_of(others) == cluster, "in the whole process"


def test_the_same_when_the_listed_addresses_are_silent(names, listed):
    with opened(text(listed)) as brokers, dropping() as one, dropping() as other:
        cluster = cluster_of(brokers)
        names.of[listed] = [one, other]
        brokers.reset()
        assert cluster_of(brokers) == cluster


@pytest.fixture
def foreign(monkeypatch):
    """A broker of another cluster."""
    monkeypatch.setattr(embedded, "CLUSTER", "another0embedded0kafka")
    with embedded.EmbeddedBroker() as started:
        yield started


def test_known_addresses_of_another_cluster_are_passed_over(names, listed, foreign):
    with opened(text(listed)) as brokers:
        cluster = cluster_of(brokers)
        for each in known._known[text(listed)].addresses:
            names.of[each] = [address_of(foreign)]
        before, names.of[listed] = names.of[listed], []
        brokers.reset()
        with pytest.raises(KafkaTimeoutError):
            brokers.connect(SHORT_SECONDS)
        assert known._known[text(listed)].cluster_id == cluster

        names.of[listed] = [address_of(foreign)]
        brokers.reset()
        brokers.connect(SECONDS)
        other = brokers.manager.cluster.cluster_id
        assert other != cluster, "what is listed decides"
        assert known._known[text(listed)].cluster_id == other

        names.of.clear()
        names.of[listed] = before
        brokers.reset()
        assert cluster_of(brokers) == cluster


def test_metadata_of_another_cluster_are_not_remembered(listed):
    """A broker's host may belong to another cluster before its connection is opened anew."""
    with opened(text(listed)) as brokers:
        cluster = cluster_of(brokers)
        before = known._known[text(listed)]
        answer = brokers.ask(METADATA, lambda _: ())
        answer.cluster_id = "another"
        brokers.manager.cluster.update_metadata(answer)
        assert known._known[text(listed)] == before
        assert before.cluster_id == cluster


def test_lists_of_addresses_are_forgotten_when_they_are_too_many(listed, monkeypatch):
    monkeypatch.setattr(known, "CLUSTERS_MAX", 1)
    known._known["another.example:1"] = known.KnownBrokers("another", ())
    with opened(text(listed)) as brokers:
        brokers.connect(SECONDS)
    assert [*known._known] == [text(listed)]


def test_another_process_is_given_the_brokers_that_are_known_here(names, listed, monkeypatch):
    """A worker, as it begins with the plan of its pipeline."""
    words = {"bootstrap.servers": text(listed)}
    assert client_settings.with_known_brokers(words) == words
    with choice.opened(words, SECONDS) as brokers:
        cluster = cluster_of(brokers)
    given = client_settings.with_known_brokers(words)
    names.of[listed] = []
    with monkeypatch.context() as another_process:
        another_process.setattr(known, "_known", {})
        with choice.opened(given, SECONDS) as brokers:
            assert cluster_of(brokers) == cluster
