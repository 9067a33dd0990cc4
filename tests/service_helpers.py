"""Running the service as users do: the command in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

RUN_SECONDS_MAX = 420
STOP_SECONDS_MAX = 60


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


class Service:
    """`sequencer run CONFIG`; ends with the test, whatever happens."""

    def __init__(
        self,
        config: Path,
        *arguments: str,
        environment: dict[str, str] | None = None,
        command: tuple[str, ...] = ("-m", "streaming.cli"),
    ):
        self.config = config
        self.log = config.parent / f"run-{time.monotonic_ns()}.log"
        words = [sys.executable, *command, "run", str(config), *arguments]
        root = str(Path(__file__).parents[1])
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        kept = {k: v for k, v in os.environ.items() if k != "SEQUENCER_BOOTSTRAP_SERVERS"}
        with self.log.open("w") as output:
            self.process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=config.parent,
                env={**kept, "PYTHONPATH": path, **(environment or {})},
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def wait(self, limit_s: float = RUN_SECONDS_MAX) -> int:
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                f"the service ran longer than {limit_s} s:\n{self.said()}"
            ) from None

    def until(self, condition, limit_s: float = RUN_SECONDS_MAX):
        """Wait for a condition (a function) to give something true; its value."""
        deadline = time.monotonic() + limit_s
        while not (found := condition()):
            assert self.process.poll() is None, f"the service ended:\n{self.said()}"
            assert time.monotonic() < deadline, f"nothing within {limit_s} s:\n{self.said()}"
            time.sleep(0.2)
        return found

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.wait(STOP_SECONDS_MAX)

    def kill(self) -> None:
        """kill -9 of the driver and its JVM; the workers end with the JVM."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)


def run_once(config: Path, *arguments: str, limit_s: float = RUN_SECONDS_MAX, **how: Any) -> str:
    """`sequencer run CONFIG --once` to its end; what it said. ``how``: as for `Service`."""
    with Service(config, "--once", *arguments, **how) as service:
        status = service.wait(limit_s)
        assert status == 0, service.said()
        return service.said()


def status(config: Path) -> dict[str, Any]:
    return _json("status", str(config))["pipelines"]


def inspect(config: Path, *arguments: str) -> dict[str, Any]:
    return _json("inspect", str(config), *arguments)


def _json(*arguments: str) -> dict[str, Any]:
    """What a command says with --json."""
    said = subprocess.run(
        [sys.executable, "-m", "streaming.cli", *arguments, "--json"],
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
        cwd=Path(__file__).parents[1],
    )
    return json.loads(said.stdout)


def verify(config: Path, *arguments: str, limit_s: float = 300) -> tuple[int, str]:
    """`sequencer verify CONFIG`: its exit status, and what it said."""
    said = subprocess.run(
        [sys.executable, "-m", "streaming.cli", "verify", str(config), *arguments],
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    return said.returncode, said.stdout + said.stderr
