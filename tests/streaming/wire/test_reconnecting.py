"""A host that takes connections and ends them, as a load balancer without a broker; or takes none."""

import gc
import socket
from pathlib import Path

import pytest
from kafka.errors import KafkaError
from kafka.protocol.metadata import MetadataRequest

from streaming.wire.brokers import Brokers
from tests.proxies import Proxies

SECONDS = 3
CONNECTIONS_MAX = 12
"""With pauses from 50 ms, twice as long each time, up to 1 s."""
FILES = Path("/proc/self/fd")
"""What this process has open."""


def test_between_connections_that_end_before_they_are_ready_there_are_longer_and_longer_pauses(
    broker,
):
    request = MetadataRequest(topics=[], max_version=9)
    with Proxies(broker.bootstrap) as proxies:
        brokers = Brokers({"bootstrap_servers": proxies.bootstrap.split(",")})
        try:
            brokers.ask(lambda: request, lambda _: ())
            lost = proxies.lose("ApiVersions", answers=True)
            proxies.cut()
            with pytest.raises(KafkaError):
                brokers.ask(lambda: request, lambda _: (), seconds=SECONDS)
            assert 1 < len(lost.seen) <= CONNECTIONS_MAX
            lost.release()
            assert brokers.ask(lambda: request, lambda _: ()).brokers
        finally:
            brokers.close()


def test_sockets_that_did_not_connect_are_closed():
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        brokers = Brokers({"bootstrap_servers": "127.0.0.1:{1}".format(*nobody.getsockname())})
        gc.collect()
        gc.disable()
        try:
            before = len(list(FILES.iterdir()))
            with pytest.raises(KafkaError):
                brokers.connect(SECONDS)
            assert len(list(FILES.iterdir())) == before
        finally:
            gc.enable()
            brokers.close()
