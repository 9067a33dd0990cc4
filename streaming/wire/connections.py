"""kafka-python's connections, as the service needs them.

A refusal ends the search for brokers, a handshake has a limit, certificates may be renewed, and
large answers are decoded where they were received.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from kafka.errors import (
    KafkaConnectionError,
    NodeNotReadyError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka.net import manager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol import parser
from kafka.protocol.frame import KafkaBytes

from streaming.wire import sockets
from streaming.wire.bootstrap import KNOWN, Bootstrap
from streaming.wire.tokens import TokenProvider

HANDSHAKE_SECONDS_MAX = 10.0
"""For the TLS handshake; kafka-python's limit for a connection is the same."""

RECEIVE_BYTES = 2**20
LARGE_BYTES = 64 * 2**10
"""An answer of at least this many bytes is decoded where it was received, without a copy."""

REFUSALS = (SaslAuthenticationFailedError, UnsupportedSaslMechanismError)
"""Refusals of our name, password or mechanism, which a retry does not change."""

REFUSED_CERTIFICATE = re.compile("certificate", re.IGNORECASE)
"""TLS errors about a certificate, the broker's or ours; ours are reported after the handshake."""


class _Frame(KafkaBytes):  # type: ignore[misc]
    """An answer's bytes. kafka-python copies all of them twice before it decodes them."""

    def read(self, nbytes: int | None = None) -> bytes | memoryview:
        """Return ``nbytes`` bytes, or all that remain."""
        if nbytes is not None or len(self) < LARGE_BYTES:
            some: bytes = super().read(nbytes)
            return some
        rest = memoryview(self)[self.tell() :]
        self.seek(len(self))
        return rest


parser.KafkaBytes = _Frame  # it has no parameter for it


class Selector(NetworkSelector):  # type: ignore[misc]
    """kafka-python's network loop, where an interrupt within one of its tasks is raised.

    kafka-python takes it for an error of the task, or of the task's connection, and goes on.
    """

    interrupt: BaseException | None = None
    raised: BaseException | None = None

    def note(self, error: BaseException | None) -> None:
        """Keep an error for the end of this turn if it is an interrupt, and a new one."""
        if isinstance(error, (KeyboardInterrupt, SystemExit)) and error is not self.raised:
            self.interrupt = error

    def _add_ready_task(self, task: Any) -> None:
        self.note(task._exc)  # noqa: SLF001
        super()._add_ready_task(task)

    def _task_done(self, task: Any) -> None:
        self.note(task._exc)  # noqa: SLF001
        super()._task_done(task)

    def _poll_once(self, timeout: float | None = None) -> None:
        super()._poll_once(timeout)
        if self.interrupt is not None:
            self.raised, self.interrupt = self.interrupt, None
            raise self.raised


class Connections(Bootstrap):
    """kafka-python's connections, where a refusal ends the search for brokers at once.

    kafka-python itself searches until its timeout and then reports only that it found none: a
    refusal arrives together with the connection's end, and its transport drops such bytes.
    ``new_ssl_context`` makes TLS settings for each connection, as their files may be renewed.
    """

    def __init__(self, network: Any, **settings: Any) -> None:
        self.new_ssl_context: Callable[[], Any] | None = settings.get("new_ssl_context")
        super().__init__(network, **settings)

    def get_connection(self, node: Any, *arguments: Any, **more: Any) -> Any:
        """Return kafka-python's connection; raise the refusal if a broker sent one.

        NodeNotReadyError during a pause says why the last connection failed.
        """
        if self.refusal is not None:
            raise self.refusal
        self.broker_version_data = None  # kafka-python's may be of an address that is no broker
        try:
            connection = super().get_connection(node, *arguments, **more)
        except NodeNotReadyError as error:
            raise NodeNotReadyError(*(self.last_error or error).args) from error
        if not str(node).startswith(KNOWN):  # another service may have that address now
            connection.init_future.add_errback(partial(self._note, node))
        return connection

    def _note(self, node: Any, error: Exception) -> None:
        self.last_error = error
        tokens = self.config.get("sasl_oauth_token_provider")
        if isinstance(error, SaslAuthenticationFailedError) and isinstance(tokens, TokenProvider):
            tokens.forget()
        is_certificate = is_about_certificates(error) and not self.bootstrapped
        if isinstance(error, REFUSALS) or is_certificate:  # one that expired may be renewed
            if self.bootstrapped:
                self.refusal = error
            else:
                self.refused[node] = error

    async def _connect(
        self, node: Any, connection: Any, reset_backoff_on_connect: bool = True, **more: Any
    ) -> None:
        """Connect; pauses between attempts grow until a connection is ready.

        kafka-python forgets them once a host takes the connection, even if it then ends it.
        """
        await super()._connect(node, connection, reset_backoff_on_connect=False, **more)
        if connection.connected:
            if reset_backoff_on_connect:
                self.reset_backoff(node.node_id)
        elif not self.connection_delay(node.node_id):  # else kafka-python has made it longer
            self.update_backoff(node.node_id)

    async def _build_transport(self, *arguments: Any, **more: Any) -> Any:
        if self.new_ssl_context is not None:
            try:
                self.config["ssl_context"] = self.new_ssl_context()
            except Exception as error:  # its files are being renewed: the next one reads them
                raise KafkaConnectionError(str(error)) from error
        transport = await super()._build_transport(*arguments, **more)
        receive = transport._sock_recv  # noqa: SLF001
        if type(transport) is KafkaTCPTransport:
            receive = partial(_receive, transport)

        def received() -> tuple[bytes, Exception | None]:
            data, error = receive()
            return data, None if data else error  # the end is met again, without data, next time

        transport._sock_recv = received  # noqa: SLF001
        send = transport._sock_send  # noqa: SLF001

        def sent() -> tuple[int, Exception | None]:
            count, error = send()
            if error is not None:
                self._net.note(error.args[0])
            return count, error

        transport._sock_send = sent  # noqa: SLF001
        return transport


class _TlsTransport(KafkaSSLTransport):  # type: ignore[misc]
    """kafka-python's transport with a timeout for the handshake: a host may accept and hang."""

    async def handshake(self) -> None:
        """Shake hands; if it takes too long, close the connection and raise KafkaTimeoutError."""
        timeout_at = time.monotonic() + HANDSHAKE_SECONDS_MAX
        try:
            while True:
                try:
                    self._sock.do_handshake()
                except ssl.SSLWantReadError:
                    await self._net.wait_read(self._sock, timeout_at)
                except ssl.SSLWantWriteError:
                    await self._net.wait_write(self._sock, timeout_at)
                else:
                    return
        except BaseException:
            self._sock.close()
            raise


manager.KafkaSSLTransport = _TlsTransport  # it has no parameters for these
manager.create_connection = sockets.create_connection


def is_about_certificates(error: BaseException) -> bool:
    """Return whether one side refuses the other's certificate."""
    return REFUSED_CERTIFICATE.search(str(error)) is not None


def _receive(transport: KafkaTCPTransport) -> tuple[bytes, Exception | None]:
    """Return the bytes received so far; kafka-python itself reads 4 KiB at a time.

    All but the last byte of a large answer is received where it will be decoded; by the last byte
    kafka-python sees that the answer is complete.
    """
    answers = getattr(transport.get_protocol(), "parser", None)
    frame = getattr(answers, "_rbuffer", None)
    try:
        if frame is not None and (rest := len(frame) - frame.tell()) > LARGE_BYTES:
            count = transport._sock.recv_into(memoryview(frame)[-rest:-1])  # noqa: SLF001
            frame.seek(frame.tell() + count)
            return b"", None if count else KafkaConnectionError("socket disconnected")
        data = transport._sock.recv(RECEIVE_BYTES)  # noqa: SLF001
    except (BlockingIOError, InterruptedError):
        return b"", None
    except OSError as error:
        return b"", KafkaConnectionError(error)
    return data, None if data else KafkaConnectionError("socket disconnected")
