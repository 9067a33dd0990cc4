"""One process in which services run one after another, in one Spark session.

A service's start costs a JVM, a session and Python's workers: most of what a small test would take.
Here they start once. What runs is `sequencer`, called with a user's words; only the session goes on
when a command ends. Tests that look at a process or kill it use one of their own.

`python -m tests.warm FD` takes a line of JSON with a command's words and environment from standard
input, and writes a line with its exit status and its output to the file descriptor. ``within``
names a context manager that the command runs in, as "module:function".
"""

from __future__ import annotations

import gc
import io
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import AbstractContextManager, ExitStack, nullcontext, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import typer.main

ROOT = Path(__file__).parents[1]
END_SECONDS_MAX = 60
typer.main.get_command = cache(typer.main.get_command)
"""The command line is built once in a process, as by users. A test calls it again and again, a wait
many times, and to build it takes ten times as long as `status` itself."""


class WarmProcess:
    """The process as tests see it: one command at a time."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="warm-")
        self.log = Path(self.folder.name) / "log"
        read, write = os.pipe()
        self.answers = os.fdopen(read, "rb", buffering=0)
        kept = {k: v for k, v in os.environ.items() if k != "SEQUENCER_BOOTSTRAP_SERVERS"}
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.warm", str(write)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=ROOT,
                pass_fds=[write],
                env={**kept, "PYTHONPATH": python_path()},
            )
        os.close(write)
        self.last: Command | None = None

    def call(
        self, *words: str, environment: dict[str, str] | None = None, within: str = ""
    ) -> Command:
        """Start a command; the one before must have ended."""
        assert self.last is None or self.last.poll() is not None, "one command at a time"
        self.last = Command(self, self.log.stat().st_size)
        line = json.dumps({"words": words, "environment": environment or {}, "within": within})
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        return self.last

    def kill(self) -> None:
        """kill -9, with the JVM."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(END_SECONDS_MAX)

    def end(self) -> None:
        """Let Spark end, by force where that takes long; nothing is left."""
        if self.last is None or self.last.poll() is not None:
            self.process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(END_SECONDS_MAX)
        self.kill()
        self.answers.close()
        self.folder.cleanup()


@dataclass
class Command:
    """One command in the warm process."""

    warm: WarmProcess
    begin: int
    stop: int | None = None
    answer: dict[str, Any] | None = None
    part: bytes = field(default=b"")

    def poll(self, limit_s: float = 0) -> int | None:
        """The exit status, None while it runs; that of the process where it died."""
        deadline = time.monotonic() + limit_s
        while self.answer is None:
            left = max(0, deadline - time.monotonic())
            if not select.select([self.warm.answers], [], [], left)[0]:
                return None
            if not (found := self.warm.answers.read(65536)):
                self.answer = {"status": self.warm.process.wait(END_SECONDS_MAX), "out": ""}
            self.part += found
            if self.part.endswith(b"\n"):
                self.answer = json.loads(self.part)
        if self.stop is None:
            self.stop = self.warm.log.stat().st_size
        return self.answer["status"]

    def said(self) -> str:
        """What it wrote so far, Spark's log included; what is for standard output comes last."""
        with self.warm.log.open("rb") as file:
            file.seek(self.begin)
            text = file.read(-1 if self.stop is None else self.stop - self.begin)
        return text.decode(errors="replace") + (self.answer["out"] if self.answer else "")


_warm: WarmProcess | None = None


def warm() -> WarmProcess:
    """The process, started by whoever needs it first, and again after it was killed."""
    global _warm  # noqa: PLW0603  (one for the whole run of tests)
    if _warm is not None and _warm.process.poll() is not None:
        end()
    if _warm is None:
        _warm = WarmProcess()
    return _warm


def end() -> None:
    """End the process, if there is one."""
    global _warm  # noqa: PLW0603
    if _warm is not None:
        _warm.end()
    _warm = None


def python_path() -> str:
    """Where processes of tests find this project's packages, `tests` included."""
    return os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))


class Kept:
    """The first command's JVM and session, given to those that follow; ended at the end."""

    def __init__(self) -> None:
        from streaming.service import run
        from streaming.spark import session

        self.usual = (session.start_jvm, session.spark_session)
        self.stack = ExitStack()
        self.jvm: Any = None
        self.session: Any = None
        session.start_jvm = self.start_jvm
        for module in (run, session):
            module.spark_session = self.spark_session

    def start_jvm(
        self, config: Any, _to: str = "", *, workers: bool = False
    ) -> AbstractContextManager[Any]:
        if self.jvm is None:
            self.jvm = self.stack.enter_context(self.usual[0](config, workers=workers))
        return nullcontext(self.jvm)

    def spark_session(self, config: Any, _jvm: Any = None) -> AbstractContextManager[Any]:
        if self.session is None:
            self.start_jvm(config)
            self.session = self.stack.enter_context(self.usual[1](config, self.jvm))
        return nullcontext(self.session)


def serve(answers: io.TextIOBase) -> None:
    """Carry out commands until standard input ends."""
    from streaming.service.checkpoint import Checkpoint

    claim = Checkpoint.claim
    claimed: list[Checkpoint] = []

    def claim_and_note(checkpoint: Checkpoint, service: str) -> None:
        claimed.append(checkpoint)
        claim(checkpoint, service)

    Checkpoint.claim = claim_and_note
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # commands have handlers of their own
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    kept = Kept()
    with kept.stack:
        for line in sys.stdin:
            asked = json.loads(line)
            before = dict(os.environ)
            os.environ.update(asked["environment"])
            with redirect_stdout(io.StringIO()) as out, _manager(asked["within"]):
                status = _carry_out(asked["words"])
            os.environ.clear()
            os.environ.update(before)
            while claimed:  # the end of a process would let go of it
                lock = claimed.pop()._lock
                if lock is not None:
                    lock.close()
            gc.collect()
            sys.stderr.flush()
            answers.write(json.dumps({"status": status, "out": out.getvalue()}) + "\n")
            answers.flush()


def _end_with(parent: int) -> None:
    """End this process and its JVM when the tests have, also where they were killed."""
    while os.getppid() == parent:
        time.sleep(1)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _manager(name: str) -> AbstractContextManager[Any]:
    if not name:
        return nullcontext()
    return resolve_name(name)()


def _carry_out(words: list[str]) -> int:
    from streaming import cli

    sys.argv = ["sequencer", *words]
    try:
        cli.main()
    except SystemExit as ended:
        return int(ended.code or 0)
    raise AssertionError("a command ends with a status")


if __name__ == "__main__":
    with os.fdopen(int(sys.argv[1]), "w") as answers_to_tests:
        serve(answers_to_tests)
