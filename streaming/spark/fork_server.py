"""A process that imports Python workers' modules once, and forks when Spark starts a daemon.

Spark starts two daemons, one for operators and one for the sink, the second when the first answers,
and its first batch waits for both: four seconds in which a core is idle. This process imports for
both while the JVM makes its session; the process that Spark starts (`worker_entry`) hands over to a
child of it. The modules are in memory once.

It has no threads and does not import Spark: a request brings streams, environment and arguments. It
ends with the service, when its standard input ends.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from streaming.spark.processes import ALLOCATORS, UNHEARD, quietly
from streaming.spark.worker_entry import ADDRESS

STOP_SECONDS_MAX = 2
ASKED_SECONDS_MAX = 10


class ForkServer:
    """The process, while the service runs. Without it, daemons import for themselves.

    ``folder``: for its socket. ``environment``: workers' variables besides ours. ``modules``: those
    of the pipelines' operators.
    """

    def __init__(
        self, folder: Path, python: str, environment: Mapping[str, str], modules: Iterable[str]
    ) -> None:
        self.address = str(folder / "socket")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.address)
            listener.listen()  # who comes before it is ready waits
            number = listener.fileno()
            self._process = subprocess.Popen(
                [*UNHEARD, python, "-m", "streaming.spark.fork_server", str(number), *modules],
                stdin=subprocess.PIPE,  # it ends when this does
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[number],
                env={
                    **ALLOCATORS,
                    "PYTHONHASHSEED": "0",  # as Spark's daemons have it
                    "PYTHONUNBUFFERED": "YES",
                    **os.environ,
                    **environment,
                },
            )

    @property
    def environment(self) -> dict[str, str]:
        """Return the JVM's environment variables that name it."""
        return {ADDRESS: self.address}

    def close(self) -> None:
        """End the process, by force if it does not end by itself."""
        process = self._process
        if process.stdin is not None:
            quietly(process.stdin.close)()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        Path(self.address).unlink(missing_ok=True)


def serve(listener: socket.socket, modules: Iterable[str]) -> None:
    """Import the modules, then fork a daemon for each request, until standard input ends."""
    from streaming.spark import worker_daemon  # noqa: PLC0415  (most of the work)

    worker_daemon.prepare([*worker_daemon.ALL_MODULES, *modules])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for their status
    while 0 not in select.select([0, listener.fileno()], [], [])[0]:
        asker, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _become(asker)
            worker_daemon.manage()
            return
        asker.close()


def _become(asker: socket.socket) -> None:
    """Take on the asker's streams, environment and arguments; it waits until the socket closes."""
    asker.settimeout(ASKED_SECONDS_MAX)
    head, streams, _, _ = socket.recv_fds(asker, 4, 3)
    rest = int.from_bytes(head, "big")
    message = b""
    while len(message) < rest:
        part = asker.recv(rest - len(message))
        if not part:
            raise ConnectionError("the daemon that Spark started has ended")
        message += part
    request = json.loads(message)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path[:] = request["path"]
    sys.argv[1:] = request["words"]
    asker.sendall(b"1")
    asker.detach()  # closed with this process


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
