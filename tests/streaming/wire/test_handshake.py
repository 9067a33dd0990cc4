"""TLS: a host that takes connections and stands still, and files that are being renewed."""

import socket
import ssl
import time

import pytest
from kafka.errors import KafkaError, KafkaTimeoutError

from streaming.errors import ConfigError
from streaming.wire import connections
from streaming.wire.brokers import Brokers

SECONDS, SECONDS_MAX = 5, 60


@pytest.fixture
def silent():
    """Where a server takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def over_tls(address, **more):
    return Brokers(
        {
            "bootstrap_servers": [address],
            "security_protocol": "SSL",
            "ssl_context": ssl.create_default_context(),
            "request_timeout_ms": 500,
            **more,
        }
    )


def test_a_handshake_has_an_end(silent, monkeypatch):
    monkeypatch.setattr(connections, "HANDSHAKE_SECONDS_MAX", 0.3)
    asked = over_tls(silent)
    began = time.monotonic()
    with pytest.raises(KafkaTimeoutError, match="Handshake failed"):
        asked.connect(SECONDS)
    assert time.monotonic() - began < SECONDS_MAX
    asked.close()


def test_files_that_cannot_be_read_for_a_moment_are_read_again(silent, monkeypatch):
    """The error names a certificate, as a broker's refusal does, which is not asked again."""
    monkeypatch.setattr(connections, "HANDSHAKE_SECONDS_MAX", 0.3)
    faults = [ConfigError("ssl.certificate: a.pem with a.key cannot be used: values mismatch.")]

    def context():
        if faults:
            raise faults.pop()
        return ssl.create_default_context()

    asked = over_tls(silent, new_ssl_context=context)
    with pytest.raises(KafkaError, match="values mismatch"):
        asked.connect(SECONDS)
    asked.reset()
    with pytest.raises(KafkaTimeoutError, match="Handshake failed"):
        asked.connect(SECONDS)
    asked.close()
