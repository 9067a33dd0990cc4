"""The command in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

SECONDS_MAX = 60
ROOT = str(Path(__file__).parents[3])
SEQUENCER = [sys.executable, "-m", "streaming.cli"]


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if k != "SEQUENCER_BOOTSTRAP_SERVERS"}
    return {**kept, "PYTHONPATH": ROOT, "PYTHONUNBUFFERED": "1", **more}


def process(*arguments, stdin=b"", **more):
    """Runs the command in a process of its own: status, stdout, stderr (bytes, text)."""
    done = subprocess.run(
        [*SEQUENCER, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=SECONDS_MAX,
        env=environment(**more),
        check=False,
    )
    return done.returncode, done.stdout, done.stderr.decode()


class Tail:
    """`sequencer tail` running; ends with the test."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [*SEQUENCER, "tail", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            # Where tests run in the background, Ctrl-C is ignored, and children inherit that.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )
        self.guard = threading.Timer(SECONDS_MAX, self.process.kill)  # a wait has its limit
        self.guard.start()

    def __enter__(self):
        while b"Waiting" not in (line := self.process.stderr.readline()):
            assert line, "tail ended before it waited"
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate(timeout=SECONDS_MAX)
        self.guard.cancel()
