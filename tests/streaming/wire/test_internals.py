"""Names of kafka-python's that are not public, or that move: one assertion for each.

After an upgrade these fail first, within seconds, and say which name has moved; who uses it is in
`streaming/wire/`.
"""

import inspect
import socket
from importlib import import_module
from importlib.metadata import version
from pkgutil import resolve_name

import pytest
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaTCPTransport
from kafka.protocol import parser
from kafka.protocol.frame import KafkaBytes

from streaming.wire import connections

NAMES = {
    "kafka.net.connection:KafkaConnection": None,
    "kafka.cluster:ClusterMetadata.add_listener": ["self", "listener"],
    "kafka.cluster:ClusterMetadata.metadata_request": ["self"],
    "kafka.cluster:ClusterMetadata.start_refresh_loop": ["self"],
    "kafka.net.inet:create_connection": ["net", "host", "port", "socket_options", "proxy_url"],
    "kafka.net.inet:KafkaNetSocket.connect": ["self", "net", "addrinfo", "socket_options"],
    "kafka.net.inet:KafkaNetSocket.dns_lookup": ["self", "host", "port"],
    "kafka.net.inet:KafkaNetSocket.sock_connect": ["self", "net", "sock", "sockaddr"],
    "kafka.net.manager:KafkaConnectionManager.__init__": ["self", "net"],
    "kafka.net.manager:KafkaConnectionManager._build_transport": ["self", "node"],
    "kafka.net.manager:KafkaConnectionManager._connect": ["self", "node", "conn"],
    "kafka.net.manager:KafkaConnectionManager._do_bootstrap": ["self", "deadline"],
    "kafka.net.manager:KafkaConnectionManager.bootstrap": ["self", "timeout_ms"],
    "kafka.net.manager:KafkaConnectionManager.bootstrapped": None,
    "kafka.net.manager:KafkaConnectionManager.call_soon": ["self", "coro"],
    "kafka.net.manager:KafkaConnectionManager.close": ["self"],
    "kafka.net.manager:KafkaConnectionManager.connection_delay": ["self", "node_id"],
    "kafka.net.manager:KafkaConnectionManager.get_connection": ["self", "node_id"],
    "kafka.net.manager:KafkaConnectionManager.reset_backoff": ["self", "node_id"],
    "kafka.net.manager:KafkaConnectionManager.run": ["self", "coro"],
    "kafka.net.manager:KafkaConnectionManager.send": ["self", "request", "node_id"],
    "kafka.net.manager:KafkaConnectionManager.socket_connection_setup_timeout_ms": [
        "self",
        "node_id",
    ],
    "kafka.net.manager:KafkaConnectionManager.update_backoff": ["self", "node_id"],
    "kafka.net.sasl:register_sasl_mechanism": ["name", "klass", "overwrite"],
    "kafka.net.sasl.gssapi:SaslMechanismGSSAPI.__init__": None,
    "kafka.net.sasl.oauth:AbstractTokenProvider.extensions": ["self"],
    "kafka.net.sasl.oauth:AbstractTokenProvider.token": ["self"],
    "kafka.net.selector:NetworkSelector._add_ready_task": ["self", "task"],
    "kafka.net.selector:NetworkSelector._poll_once": ["self", "timeout"],
    "kafka.net.selector:NetworkSelector._task_done": ["self", "task"],
    "kafka.net.selector:NetworkSelector.close": ["self"],
    "kafka.net.selector:NetworkSelector.poll": ["self", "timeout_ms"],
    "kafka.net.manager:KafkaSSLTransport": ["net", "sock", "host"],
    "kafka.net.selector:NetworkSelector.sleep": ["self", "delay"],
    "kafka.net.selector:NetworkSelector.wait_read": ["self", "fileobj", "timeout_at"],
    "kafka.net.selector:NetworkSelector.wait_write": ["self", "fileobj", "timeout_at"],
    "kafka.net.transport:KafkaTCPTransport._sock_recv": ["self"],
    "kafka.net.transport:KafkaTCPTransport._sock_send": ["self"],
    "kafka.net.transport:KafkaTCPTransport.get_protocol": ["self"],
    "kafka.protocol.frame:KafkaBytes.read": ["self", "nbytes"],
    "kafka.protocol.frame:KafkaBytes.seek": None,
    "kafka.protocol.frame:KafkaBytes.tell": None,
    "kafka.protocol.parser:KafkaBytes": None,
    "kafka.protocol.parser:KafkaProtocol.receive_bytes": ["self", "data"],
    "kafka.record.default_records:DefaultRecordBatch._read_msg": ["self"],
}
"""Each with its first parameters, where they matter."""

TEXTS = {
    "kafka.cluster:ClusterMetadata.broker_metadata": ["self._bootstrap_brokers.get(broker_id)"],
    "kafka.cluster:ClusterMetadata.update_metadata": ["listener(self)"],
    "kafka.net.manager:KafkaConnectionManager.__init__": [
        "self._bootstrap_wakeup = WakeupNotifier"
    ],
    "kafka.net.manager:KafkaConnectionManager.bootstrap_async": [
        "self.call_soon(self._do_bootstrap, deadline)"
    ],
    "kafka.net.transport:KafkaTCPTransport._read_from_sock": ["self._sock_recv()"],
    "kafka.net.transport:KafkaTCPTransport._sock_recv": ["self._sock.recv("],
    "kafka.net.selector:Task": ["self._exc = exc", "self._exc = e\n"],
    "kafka.net.transport:KafkaTCPTransport._sock_send": ["KafkaConnectionError(e)"],
    "kafka.net.transport:KafkaSSLTransport._sock_send": ["KafkaConnectionError(e)"],
    "kafka.net.transport:KafkaSSLTransport._build_ssl_context": ["return config['ssl_context']"],
    "kafka.net.transport:KafkaSSLTransport.handshake": [
        "self._sock.do_handshake()",
        "self._net.wait_read(self._sock)",
        "self._net.wait_write(self._sock)",
    ],
    "kafka.net.manager:KafkaConnectionManager._build_transport": [
        "KafkaSSLTransport(self._net, sock,",
        "await create_connection(self._net, node.host, node.port,",
        "await transport.handshake()",
    ],
    "kafka.net.manager:KafkaConnectionManager._connect": ["if reset_backoff_on_connect:"],
    "kafka.net.manager:KafkaConnectionManager.get_connection": [
        "KafkaConnection(",
        "self._conns[node_id] = conn",
    ],
    "kafka.net.connection:KafkaConnection": ["self.init_future", "self.parser = KafkaProtocol("],
    "kafka.net.sasl.gssapi:SaslMechanismGSSAPI": [
        "self._client_ctx",
        "self._next_token",
        "self._is_done",
        "self._is_authenticated",
        "self.auth_id",
        "self.gssapi_name",
        "sasl_kerberos_name",
    ],
    "kafka.protocol.parser:KafkaProtocol.receive_bytes": ["self._rbuffer = KafkaBytes("],
}
"""What must stand in their sources: attributes that we set, or functions that we put over."""

REQUESTS = {
    "admin": ["CreateTopics", "DeleteRecords", "DescribeConfigs"],
    "consumer": ["Fetch", "ListOffsets", "OffsetFetch", "OffsetForLeaderEpoch"],
    "metadata": ["FindCoordinator", "Metadata"],
    "producer": [
        "AddOffsetsToTxn",
        "AddPartitionsToTxn",
        "EndTxn",
        "InitProducerId",
        "Produce",
        "TxnOffsetCommit",
    ],
}


def test_kafka_python_is_the_one_that_is_pinned():
    assert version("kafka-python") == "3.0.12"


@pytest.mark.parametrize("name", NAMES)
def test_kafka_python_has(name):
    thing, parameters = resolve_name(name), NAMES[name]
    if parameters is not None:
        assert list(inspect.signature(thing).parameters)[: len(parameters)] == parameters


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, every in TEXTS.items() for text in every]
)
def test_kafka_python_s_source_has(name, text):
    assert text in inspect.getsource(resolve_name(name))


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, every in REQUESTS.items() for name in every]
)
def test_there_is_a_request(module, name):
    assert callable(getattr(import_module(f"kafka.protocol.{module}"), f"{name}Request"))


def test_answers_are_received_into_our_frames():
    assert parser.KafkaBytes is connections._Frame
    assert issubclass(connections._Frame, KafkaBytes)
    assert parser.KafkaProtocol()._rbuffer is None


def test_a_manager_has_its_cluster_and_its_settings():
    network = NetworkSelector()
    manager = KafkaConnectionManager(network)
    try:
        assert callable(manager.cluster.update_metadata)
        assert callable(manager.cluster.add_coordinator)
        assert "ssl_context" in manager.config
    finally:
        network.close()


def test_a_plain_transport_has_its_socket():
    network = NetworkSelector()
    try:
        assert KafkaTCPTransport(network, None)._sock is None
    finally:
        network.close()


INTERRUPTS = pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])


@pytest.fixture
def network():
    network = connections.Selector()
    yield network
    network.close()


def raising(error):
    def function(*_arguments):
        raise error

    return function


@INTERRUPTS
def test_an_interrupt_in_a_task_is_raised_once(network, interrupt):
    network.call_soon(raising(ConnectionError))
    network.poll(timeout_ms=0)
    network.call_soon(raising(interrupt))
    with pytest.raises(interrupt):
        network.poll(timeout_ms=0)
    assert network.run(network.sleep, 0) is None


@INTERRUPTS
def test_an_interrupt_while_a_task_begins_to_wait_is_raised_once(network, monkeypatch, interrupt):
    async def waiting():
        await network.sleep(0)

    monkeypatch.setattr(network, "_sleep", raising(interrupt()))
    network.call_soon(waiting)
    with pytest.raises(interrupt):
        network.poll(timeout_ms=0)
    monkeypatch.undo()
    assert network.run(network.sleep, 0) is None


class Interrupted(socket.socket):
    def send(self, *_arguments):
        raise KeyboardInterrupt


def test_an_interrupt_while_a_request_is_sent_is_raised_and_ends_the_connection(
    network, monkeypatch
):
    here, there = socket.socketpair()

    async def transport(*_arguments, **_more):
        return KafkaTCPTransport(network, Interrupted(fileno=here.detach()))

    monkeypatch.setattr(KafkaConnectionManager, "_build_transport", transport)
    built = network.run(connections.Connections(network)._build_transport)
    built.write(b"x")
    with there, pytest.raises(KeyboardInterrupt):
        network.run(network.sleep, 1)
    assert built.is_closing()
