"""The socket that the console listens on."""

from __future__ import annotations

import socket

from streaming.errors import ConfigError, JobFailed


def bound(at: tuple[str, int]) -> socket.socket:
    """Return a socket that listens at an address and port.

    JobFailed where the port is used, ConfigError where the address is none of this machine's.
    """
    try:
        found = socket.getaddrinfo(*at, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(
            f"--listen: {at[0]} is not an address of this machine ({error.strerror}).",
            "Nothing was started.",
        ) from error
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(64)
    except OSError as error:
        listener.close()
        raise JobFailed(
            f"{at[0]}:{at[1]} cannot be listened on: {error.strerror}.",
            "Nothing was started.",
            "Does a console run there already? Give another port: --listen 127.0.0.1:8485.",
        ) from error
    return listener
