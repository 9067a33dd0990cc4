"""Sockets to a host's addresses, one after another: a name may have several.

kafka-python gives the first of them all the time, so that one which drops packets (an IPv6 address
behind a firewall, an old record) hides the others.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import wraps
from typing import Any

from kafka.errors import KafkaConnectionError, KafkaTimeoutError
from kafka.net import inet

OTHERS_WAIT_SECONDS = 1.0
"""How long the next address, of a list or of a name, waits for the one before. A lost packet costs
it one second, after which Linux repeats it; a host that takes longer over a connection answers
nothing in time."""

SILENT_MAX = 1_000
"""If more addresses than these are silent, all are forgotten."""

_silent: set[Any] = set()
"""Addresses that did not answer the last time, in all threads of this process."""

_connect_socket = inet.KafkaNetSocket.sock_connect


@wraps(_connect_socket)
async def _connect_or_close(sockets: Any, network: Any, socket: Any, *to: Any, **more: Any) -> Any:
    """Connect; a socket that does not is closed. kafka-python's error keeps it open, in a cycle."""
    try:
        return await _connect_socket(sockets, network, socket, *to, **more)
    except BaseException:
        socket.close()
        raise


inet.KafkaNetSocket.sock_connect = _connect_or_close


async def create_connection(
    network: Any,
    host: str,
    port: int,
    socket_options: Iterable[Any] = (),
    proxy_url: str | None = None,
    timeout_at: float | None = None,
) -> Any:
    """Return a socket to the first of a host's addresses that takes it, until ``timeout_at``.

    Those that were silent the last time come last. Raises KafkaConnectionError with the last one's
    error.
    """
    sockets = inet.KafkaNetSocket(proxy_url)
    error = KafkaConnectionError("DNS Resolution failure")
    found = sorted(sockets.dns_lookup(host, port), key=lambda each: each[-1] in _silent)
    for number, address in enumerate(found, start=1):
        until = _until(len(found) - number, timeout_at)
        try:
            socket = await sockets.connect(network, address, socket_options, timeout_at=until)
        except KafkaTimeoutError:
            error = KafkaConnectionError("Connection timed out")
            if len(_silent) >= SILENT_MAX:
                _silent.clear()
            _silent.add(address[-1])
        except KafkaConnectionError as failure:
            error = failure
        except OSError as failure:
            error = KafkaConnectionError(f"unable to connect: {failure}")
        else:
            _silent.discard(address[-1])
            return socket
    raise error


def _until(others: int, timeout_at: float | None) -> float | None:
    """Return until when an address may take if this number of ``others`` follows."""
    if not others or timeout_at is None:
        return timeout_at
    now = time.monotonic()
    return now + min(OTHERS_WAIT_SECONDS, (timeout_at - now) / (others + 1))
