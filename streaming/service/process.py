"""`sequencer run` in a process of its own, as users run it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

STOP_SECONDS_MAX = 60


@contextlib.contextmanager
def service_process(
    config: Path, log: Path, *more: str, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """The process, which writes to ``log`` and ends with the block; by SIGKILL if it must.

    ``more``: options of `run`. ``environment``: what applies where ours says nothing.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "streaming.cli", "run", str(config), *more],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**environment, **os.environ},
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
