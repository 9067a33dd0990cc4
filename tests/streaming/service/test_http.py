"""The endpoints answer whatever other clients do, and while the service ends."""

import http.client
import socket
import time

import pytest
from prometheus_client import CollectorRegistry

from streaming.config import parse_config
from streaming.service.metrics import http as endpoints
from streaming.service.metrics import metrics_page, served
from streaming.service.metrics.health import Health
from streaming.stopping import Stopping

TABLES: dict = {
    "service": {"metrics": "127.0.0.1:0"},
    "pipelines": {"p": {"discipline": "channel"}},
}


@pytest.fixture
def stopping():
    return Stopping()


@pytest.fixture
def port(stopping):
    config = parse_config(TABLES, {}, "test")
    with served(config, Health(config, []), stopping) as used:
        yield used


def asked(port, path, method="GET", host="127.0.0.1"):
    client = http.client.HTTPConnection(host, port, timeout=30)
    client.request(method, path)
    answer = client.getresponse()
    body = answer.read().decode()
    client.close()
    return answer.status, body


@pytest.mark.parametrize("host", ["::1", "127.0.0.1"])
def test_one_address_for_ipv4_and_ipv6(stopping, host):
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    config = parse_config({**TABLES, "service": {"metrics": "[::]:0"}}, {}, "test")
    with served(config, Health(config, []), stopping) as used:
        assert asked(used, "/healthz", host=host) == (200, "alive\n")


def test_clients_that_say_nothing_stop_nobody(port):
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
    try:
        for path in ("/metrics", "/healthz"):
            assert asked(port, path)[0] == 200
        assert asked(port, "/readyz") == (503, "starting\n")
    finally:
        for each in silent:
            each.close()


def test_more_silent_clients_than_there_are_places(port, monkeypatch):
    monkeypatch.setattr(endpoints, "CONNECTIONS_MAX", 4)
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(9)]
    try:
        assert asked(port, "/healthz") == (200, "alive\n")
        silent[0].settimeout(30)
        assert silent[0].recv(1) == b"", "the oldest makes room"
    finally:
        for each in silent:
            each.close()


def test_a_client_that_sends_byte_by_byte_is_cut_off(port, monkeypatch):
    monkeypatch.setattr(endpoints, "CONNECTION_SECONDS_MAX", 0.2)
    with socket.create_connection(("127.0.0.1", port)) as slow:
        slow.settimeout(0.05)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                slow.send(b"G")
                if slow.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        else:
            raise AssertionError("it is still connected")
    assert asked(port, "/healthz")[0] == 200


def test_a_client_that_does_not_read_its_answer(port):
    with socket.create_connection(("127.0.0.1", port)) as lazy:
        lazy.send(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert asked(port, "/healthz")[0] == 200


def test_while_it_stops_it_is_not_ready(port, stopping):
    stopping.set()
    assert asked(port, "/readyz") == (503, "stopping\n")


def test_only_what_there_is_is_served(port):
    assert asked(port, "/") == (404, "known: /metrics, /healthz, /readyz\n")
    assert asked(port, "/healthz?full", "HEAD") == (200, "")
    assert asked(port, "/healthz", "POST")[0] == 501


def test_figures_that_cannot_be_had_are_503_and_say_nothing_on_standard_error(capfd):
    class Broken(CollectorRegistry):
        def collect(self):
            raise ConnectionRefusedError("the JVM is gone")

    collector = Broken()
    page = metrics_page(collector)
    with endpoints.serving("127.0.0.1", 0, {"/metrics": page}) as port:
        status, body = asked(port, "/metrics")
    assert (status, body) == (503, "not available at the moment\n")
    assert capfd.readouterr().err == ""
