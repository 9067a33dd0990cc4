"""The module that Spark starts as PySpark's daemon (`spark.python.daemon.module`).

If there is a fork server (`fork_server`), a child of it that has imported everything is the daemon:
it gets this process's standard streams, environment and arguments, and this process waits until it
ends. Elsewhere, on a cluster's executors, this process becomes the daemon itself.

It imports hardly anything, as Spark waits for it.
"""

from __future__ import annotations

import json
import os
import socket
import sys

ADDRESS = "SEQUENCER_FORK_SERVER"
"""The environment variable with the fork server's socket."""
TAKEN_SECONDS_MAX = 60


def handed_over(address: str) -> bool:
    """Let a child of the fork server be the daemon until it ends; return whether one did."""
    with socket.socket(socket.AF_UNIX) as server:
        server.settimeout(TAKEN_SECONDS_MAX)
        try:
            server.connect(address)
            request = {"environment": dict(os.environ), "path": sys.path, "words": sys.argv[1:]}
            message = json.dumps(request).encode()
            socket.send_fds(server, [len(message).to_bytes(4, "big")], [0, 1, 2])
            server.sendall(message)
            taken = server.recv(1)
        except OSError:
            return False
        if not taken:
            return False
        server.settimeout(None)
        server.recv(1)  # nothing, at its end
    return True


def main() -> None:
    """Hand over to the fork server, or be the daemon."""
    address = os.environ.get(ADDRESS)
    if address and handed_over(address):
        return
    from streaming.spark import worker_daemon  # noqa: PLC0415  (a second to import)

    worker_daemon.serve()


if __name__ == "__main__":
    main()
