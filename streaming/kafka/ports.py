"""Free ports for the embedded broker and for tests."""

import random
import socket

from streaming.errors import SequencerError

HOST = "127.0.0.1"
PORTS = (20_000, 32_000)  # below those that systems give to outgoing connections

_given: set[int] = set()
"""Ports that this process got."""


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free, and outside the range of outgoing connections.

    No port is returned twice: its user may not listen on it yet.
    """
    choice = random.SystemRandom()
    for _ in range(100):
        port = choice.randrange(*PORTS)
        if port in _given:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            _given.add(port)
            return port
    raise SequencerError(
        f"No port from {PORTS[0]} to {PORTS[1]} is free.",
        "Nothing was started.",
        "End other programs, or choose a port yourself.",
    )
