"""A Spark standalone cluster for tests: a master and workers, each a process, one core a worker.

Its Python for workers is a bare one: what it needs must come with the service's archive.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

from streaming.kafka.ports import free_port
from streaming.spark.jvm import spark_home

HOST = "127.0.0.1"
START_SECONDS_MAX = 120
END_SECONDS_MAX = 30
EXECUTOR = "CoarseGrainedExecutorBackend"
ARCHIVE = "workers.tar.gz"


class Daemon:
    """A master or a worker; ends with the test, its executors included."""

    def __init__(self, kind: str, folder: Path, *arguments: str, prefix: tuple[str, ...] = ()):
        self.log = folder / f"{kind}-{time.monotonic_ns()}.log"
        kept = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "PYSPARK_PYTHON"}}
        name = f"org.apache.spark.deploy.{kind}.{kind.capitalize()}"
        with self.log.open("w") as output:
            self.process = subprocess.Popen(
                [*prefix, str(spark_home() / "bin" / "spark-class"), name, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=folder,
                env={
                    **kept,
                    "SPARK_HOME": str(spark_home()),
                    "SPARK_LOCAL_IP": HOST,
                    "SPARK_DAEMON_MEMORY": "256m",
                },
            )

    def until_said(self, pattern: str) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while not re.search(pattern, text := self.log.read_text(errors="replace")):
            assert self.process.poll() is None, text
            assert time.monotonic() < deadline, text
            time.sleep(0.1)

    def executors(self) -> list[int]:
        """Process ids of the executors that run here."""
        return [pid for pid in _group(self.process.pid) if EXECUTOR in _command(pid)]

    def kill(self) -> None:
        """kill -9, executors included; an executor whose worker is gone would end by itself."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(END_SECONDS_MAX)


class Standalone:
    """A master and workers; a context manager."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder = folder
        self.count = workers
        self.port = free_port()
        self.workers: list[Daemon] = []
        self.python = folder / "bare" / "bin" / "python"

    @property
    def url(self) -> str:
        return f"spark://{HOST}:{self.port}"

    def __enter__(self) -> Self:
        bare = [sys.executable, "-m", "venv", "--without-pip", str(self.folder / "bare")]
        subprocess.run(bare, check=True, timeout=60)
        self._begin_master()
        for _ in range(self.count):
            self.add_worker()
        return self

    def _begin_master(self) -> None:
        where = ("--host", HOST, "--port", str(self.port), "--webui-port", "0")
        self.master = Daemon("master", self.folder, *where)
        self.master.until_said("elected leader")

    def restart_master(self) -> None:
        """kill -9 of the master; the next one knows of nothing."""
        self.master.kill()
        self._begin_master()

    def add_worker(self, *, prefix: tuple[str, ...] = ()) -> Daemon:
        work = self.folder / f"work-{len(self.workers)}"
        own = ("--cores", "1", "--memory", "1g", "--host", HOST, "--webui-port", "0")
        worker = Daemon(
            "worker", self.folder, *own, "--work-dir", str(work), self.url, prefix=prefix
        )
        self.workers.append(worker)
        worker.until_said("Successfully registered with master")
        return worker

    def __exit__(self, *_: object) -> None:
        for daemon in [*self.workers, self.master]:
            daemon.kill()

    def spark(self, archive: Path, **more: Any) -> dict[str, str]:
        """[spark] of a service that runs here."""
        return {
            "spark.master": self.url,
            "spark.driver.host": HOST,
            "spark.driver.memory": "1g",
            "spark.executor.memory": "700m",
            "spark.cores.max": str(self.count),
            "spark.pyspark.python": str(self.python),
            "spark.archives": f"{archive}#workers",
            "spark.executorEnv.PYTHONPATH": "workers",
            **more,
        }


def _group(leader: int) -> list[int]:
    """The processes of a process group."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(path.name)) == leader:
                found.append(int(path.name))
        except ProcessLookupError:
            continue
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def run_on(config: Path, spark: dict[str, str]) -> Path:
    """A service's file with another table [spark]."""
    lines = "".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in spark.items())
    text = config.read_text()
    begin = text.index("[spark]")
    end = text.index("\n[", begin) + 1
    config.write_text(f"{text[:begin]}[spark]\n{lines}{text[end:]}")
    return config
