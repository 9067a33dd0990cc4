"""What Spark starts as PySpark's daemon (`spark.python.daemon.module`).

Where there is a fork server (`fork_server`), one that has imported everything becomes the daemon in
its place: it gets the standard streams, the environment and the words of this process, which waits
until it ends. Elsewhere, on a cluster's executors, this process becomes the daemon itself.

It imports hardly anything, as Spark waits for it.
"""

from __future__ import annotations

import json
import os
import socket
import sys

ADDRESS = "SEQUENCER_FORK_SERVER"
"""Where it listens: a socket in a folder of the service's own."""
TAKEN_SECONDS_MAX = 60


def handed_over(address: str) -> bool:
    """Whether a daemon worked in place of this process; it has ended then."""
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
    """Hand over, or be the daemon."""
    address = os.environ.get(ADDRESS)
    if address and handed_over(address):
        return
    from streaming.spark import worker_daemon  # noqa: PLC0415  (a second to import)

    worker_daemon.serve()


if __name__ == "__main__":
    main()
