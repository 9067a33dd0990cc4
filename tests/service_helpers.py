"""Running the service as users do: the command, in a process of its own or in the shared one."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Self

from streaming import cli
from streaming.config import load_config
from streaming.spark.settings import jvm_settings
from tests.kafka_helpers import Record, create_topics, produce
from tests.warm import python_path, warm

RUN_SECONDS_MAX = 420
STOP_SECONDS_MAX = 240
"""What a service takes on a quiet machine is its own matter: it gives up after 60 s."""


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f'"{k}" = {toml(v)}' for k, v in value.items()) + " }"
    return (
        json.dumps(value)
        if not isinstance(value, (list, tuple))
        else ("[" + ", ".join(map(toml, value)) + "]")
    )


def write_config(folder: Path, bootstrap: str, pipelines: dict[str, dict], **service: Any) -> Path:
    tables = {
        "service": {"name": folder.name, "checkpoint": str(folder / "checkpoints"), **service},
        "kafka": {"bootstrap_servers": bootstrap},
        "spark": {"spark.master": "local[2]", "spark.driver.memory": "1g"},
        **{
            f'pipelines."{name}"': {"discipline": "channel", **each}
            for name, each in pipelines.items()
        },
    }
    path = folder / "service.toml"
    path.write_text(
        "\n".join(
            f"[{name}]\n" + "".join(f'"{key}" = {toml(value)}\n' for key, value in table.items())
            for name, table in tables.items()
        )
    )
    return path


def channel_topics(prefix: str) -> dict[str, str]:
    """The topics of a channel pipeline, under a test's prefix."""
    names = {"input": "in", "output": "out"}
    roles = ("input", "output", "rejects", "events", "commands")
    return {role: prefix + names.get(role, role) for role in roles}


class Running:
    """A service at work; ends with the test, whatever happens."""

    config: Path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def said(self) -> str:
        raise NotImplementedError

    def poll(self, limit_s: float = 0) -> int | None:
        """The exit status; None where it runs still after ``limit_s``."""
        raise NotImplementedError

    def send(self, number: int) -> None:
        raise NotImplementedError

    def kill(self) -> None:
        raise NotImplementedError

    def wait(self, limit_s: float = RUN_SECONDS_MAX) -> int:
        status = self.poll(limit_s)
        if status is None:
            self.kill()
            raise AssertionError(f"the service ran longer than {limit_s} s:\n{self.said()}")
        return status

    def until(self, condition: Callable[[], Any], limit_s: float = RUN_SECONDS_MAX) -> Any:
        """Wait for a condition (a function) to give something true; its value."""
        deadline = time.monotonic() + limit_s
        asked = time.monotonic()
        while not (found := condition()):
            ended = self.poll()
            assert ended is None, f"the service ended with status {ended}:\n{self.said()}"
            assert time.monotonic() < deadline, f"nothing within {limit_s} s:\n{self.said()}"
            took = time.monotonic() - asked
            time.sleep(min(1, max(0.2, 4 * took)))  # the cores are for the service
            asked = time.monotonic()
        return found

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.send(number)
        return self.wait(STOP_SECONDS_MAX)


class Service(Running):
    """`sequencer run CONFIG` in a process of its own."""

    def __init__(
        self,
        config: Path,
        *arguments: str,
        environment: dict[str, str] | None = None,
        module: str = "streaming.cli",
        python: str = sys.executable,
    ):
        self.config = config
        self.log = config.parent / f"run-{time.monotonic_ns()}.log"
        words = [python, "-m", module, "run", str(config), *arguments]
        kept = {k: v for k, v in os.environ.items() if k != "SEQUENCER_BOOTSTRAP_SERVERS"}
        with self.log.open("w") as output:
            self.process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=config.parent,
                env={**kept, "PYTHONPATH": python_path(), **(environment or {})},
            )

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def poll(self, limit_s: float = 0) -> int | None:
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """kill -9 of the driver and its JVM; the workers end with the JVM."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(STOP_SECONDS_MAX)


class WarmService(Running):
    """`sequencer run CONFIG` in the process that tests share; ``how``: as for its `call`."""

    def __init__(self, config: Path, *arguments: str, **how: Any):
        self.config = config
        self.warm = warm()
        self.command = self.warm.call("run", str(config), *arguments, **how)

    def said(self) -> str:
        return self.command.said()

    def poll(self, limit_s: float = 0) -> int | None:
        return self.command.poll(limit_s)

    def send(self, number: int) -> None:
        self.warm.process.send_signal(number)

    def kill(self) -> None:
        """kill -9 where it is still running; the process starts anew for the next test."""
        if self.poll() is None:
            self.warm.kill()


def run_once(
    config: Path, *arguments: str, limit_s: float = RUN_SECONDS_MAX, cold: bool = False, **how: Any
) -> str:
    """`sequencer run CONFIG --once` to its end; what it said.

    In the process that tests share, or ``cold``, in one of its own. ``how``: as for that service.
    """
    kind = Service if cold else WarmService
    with kind(config, "--once", *arguments, **how) as service:
        status = service.wait(limit_s)
        assert status == 0, (status, service.said())
        return service.said()


def keep_classes(bootstrap: str) -> None:
    """Where there is no archive of Java's classes yet, let one service work and write it.

    In a new environment dozens of services would start without one, and several write one.
    """
    topics = channel_topics(f"classes-{uuid.uuid4().hex[:8]}.")
    with tempfile.TemporaryDirectory(prefix="classes-") as folder:
        config = write_config(Path(folder), bootstrap, {"p": topics})
        _, archive = jvm_settings(load_config(config))
        if archive is not None and archive.recording:
            create_topics(bootstrap, dict.fromkeys(topics.values(), 1))
            produce(bootstrap, topics["input"], [Record(b"c", b"v", [("label", b"0")])])
            run_once(config, cold=True)


def status(config: Path) -> dict[str, Any]:
    return called_json("status", str(config))["pipelines"]


def inspect(config: Path, *arguments: str) -> dict[str, Any]:
    """In the process that tests share, for it takes Spark to read a state."""
    return warm_json("inspect", config, *arguments)


def blocked(config: Path, *arguments: str) -> dict[str, Any]:
    """`status --blocked`, likewise: where many channels wait, it reads the state."""
    return warm_json("status", config, "--blocked", *arguments)["pipelines"]


def warm_json(*arguments: object) -> Any:
    """What a command says with --json, in the process that tests share."""
    command = warm().call(*map(str, arguments), "--json")
    assert command.poll(RUN_SECONDS_MAX) == 0, command.said()
    return json.loads(command.answer["out"])


def called(*arguments: object) -> tuple[int, str, str]:
    """`sequencer` in this process: status, standard output, standard error."""
    before = sys.argv
    sys.argv = ["sequencer", *map(str, arguments)]
    out, err = io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            cli.main()
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue(), err.getvalue()
    finally:
        sys.argv = before
    raise AssertionError("a command ends with a status")


def called_json(*arguments: object) -> Any:
    """What a command says with --json."""
    code, out, err = called(*arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def verify(config: Path, *arguments: str) -> tuple[int, str]:
    """`sequencer verify CONFIG`: its exit status, and what it said."""
    code, out, err = called("verify", config, *arguments)
    return code, out + err
