"""A real Kafka broker on this machine (KRaft: broker and controller in one process), Java only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

from streaming.errors import ConfigError, SequencerError
from streaming.jars import broker_classpath, java

HOST = "127.0.0.1"
CLUSTER = "sequencer0embedded0kaf"
START_SECONDS_MAX = 90
STOP_SECONDS_MAX = 30
PARENT_DIED = 1  # prctl's PR_SET_PDEATHSIG

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "false",
    "num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.bytes": str(64 * 2**20),
}


class EmbeddedBroker:
    """A broker with its data in a folder; a context manager.

    Without ``data`` the folder is temporary. ``port`` 0 takes a free one and keeps it over restarts.
    ``properties`` are added to the broker's own. The broker ends with its parent process.
    """

    def __init__(
        self, data: Path | None = None, port: int = 0, *, properties: dict[str, str] | None = None
    ) -> None:
        self._temporary = None if data else tempfile.TemporaryDirectory(prefix="sequencer-broker-")
        self.data = Path(data or self._temporary.name).resolve()  # type: ignore[union-attr]
        self.port = port or _free_port()
        self._controller = _free_port()
        self._properties = properties or {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """Address for clients."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> EmbeddedBroker:
        """Start and wait until it answers; SequencerError with the log's end where it does not."""
        if self.pid:
            return self
        if _answers(self.port):
            raise ConfigError(
                f"Port {self.port} is taken.", "No broker was started.", "Give another --port."
            )
        self.data.mkdir(parents=True, exist_ok=True)
        self._refuse_second()
        settings = self._write_settings()
        command = [java(), "-Xmx768m", "-XX:+UseSerialGC", "-cp", self._classpath()]
        log = self.data / "broker.log"
        with log.open("ab") as output:
            if not (self.data / "logs" / "meta.properties").exists():
                form = ["kafka.tools.StorageTool", "format", f"--cluster-id={CLUSTER}"]
                subprocess.run(
                    [*command, *form, "-c", str(settings)],
                    stdout=output,
                    stderr=output,
                    timeout=START_SECONDS_MAX,
                    check=False,
                )
            self._process = subprocess.Popen(
                [*command, "kafka.Kafka", str(settings)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=_end_with_parent,  # noqa: PLW1509  (prctl only; no lock is taken)
                start_new_session=True,
            )
        (self.data / "broker.pid").write_text(str(self._process.pid))
        self._wait_until_up(log)
        return self

    def stop(self) -> None:
        """Shut down cleanly; by force after 30 s."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill -9, for tests; :meth:`start` goes on with the same data."""
        self._end(signal.SIGKILL)

    def __enter__(self) -> EmbeddedBroker:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()
        if self._temporary:
            self._temporary.cleanup()

    def _end(self, number: signal.Signals) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(number)
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _refuse_second(self) -> None:
        """The data folder belongs to one broker at a time."""
        with contextlib.suppress(
            FileNotFoundError, ValueError, ProcessLookupError, PermissionError
        ):
            pid = int((self.data / "broker.pid").read_text())
            os.kill(pid, 0)
            if b"kafka.Kafka" in Path(f"/proc/{pid}/cmdline").read_bytes():
                raise ConfigError(
                    f"A broker (process {pid}) already uses {self.data}.",
                    "No other was started.",
                    "Use that one, stop it, or give another --data.",
                )

    def _write_settings(self) -> Path:
        settings = {
            **SETTINGS,
            "listeners": f"PLAINTEXT://{HOST}:{self.port},CONTROLLER://{HOST}:{self._controller}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "controller.quorum.voters": f"1@{HOST}:{self._controller}",
            "log.dirs": str(self.data / "logs"),
            **self._properties,
        }
        path = self.data / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        path.chmod(0o600)  # properties may carry passwords
        return path

    def _classpath(self) -> str:
        return os.pathsep.join(str(jar) for jar in broker_classpath())

    def _wait_until_up(self, log: Path) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while self.pid and time.monotonic() < deadline:
            if _answers(self.port) and _serves(
                self.bootstrap, plain="listeners" not in self._properties
            ):
                return
            time.sleep(0.1)
        self.kill()
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise SequencerError(
            f"The broker did not come up; the end of {log}:\n{tail}\n",
            "It was ended.",
            "Look at the whole log; a damaged --data folder can be removed.",
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def _serves(bootstrap: str, *, plain: bool) -> bool:
    if not plain:
        return True
    from confluent_kafka import KafkaException  # noqa: PLC0415  (a quick --help)
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    try:
        return bool(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=2).brokers)
    except KafkaException:
        return False


def _end_with_parent() -> None:
    """Have the kernel end the broker when the thread that started it ends (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DIED, signal.SIGKILL)
