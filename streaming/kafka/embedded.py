"""A real Kafka broker on this machine (KRaft: broker and controller in one process), Java only.

It serves demo, tests and trying out: one broker, no replication (the tests make a cluster of
several: `tests.kafka_cluster`). It ends when the process that started it ends, however that ends.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from streaming.errors import ConfigError, SequencerError
from streaming.kafka.jars import broker_classpath, java, java_environment
from streaming.kafka.ports import HOST, free_port

CLUSTER = "sequencer0embedded0kaf"  # 22 characters of base64; a leading '-' would be an option
START_SECONDS_MAX = 90
STOP_SECONDS_MAX = 30
LOCK_SECONDS_MAX = 5
LOG_BYTES_MAX = 10 * 2**20
# prctl(PR_SET_PDEATHSIG, SIGKILL), then what it is to be; not in a preexec_fn, which may hang where
# other threads run while the process forks.
ATTACHED = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]):  # it died before it could be asked for
    sys.exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""

JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
SHORT_LIVED = "-XX:TieredStopAtLevel=1"  # Java's first compiler alone: a run of a second
LOGGING = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",)
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
LISTENERS = ("listeners", "advertised.listeners")

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": ",".join(
        ["CONTROLLER:PLAINTEXT", *(f"{name}:{name}" for name in PROTOCOLS)]
    ),
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
    "broker.session.timeout.ms": "5000",  # who was killed is let in again after that
    "broker.heartbeat.interval.ms": "1000",
    "log.segment.bytes": str(64 * 2**20),
}


class EmbeddedBroker:
    """A broker with its data in a folder; a context manager.

    Without ``data`` the folder is temporary. ``port`` 0 takes a free one and keeps it over
    restarts, likewise ``controller_port``. ``properties`` are added to the broker's own; listeners
    among them come beside the plain one at :attr:`bootstrap`.
    """

    def __init__(
        self,
        data: Path | None = None,
        port: int = 0,
        *,
        controller_port: int = 0,
        properties: dict[str, str] | None = None,
    ) -> None:
        self._temporary = None if data else tempfile.TemporaryDirectory(prefix="sequencer-broker-")
        self.data = Path(data or self._temporary.name).resolve()  # type: ignore[union-attr]
        self.port = port or free_port()
        self.controller_port = controller_port or free_port()
        self._properties = properties or {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """Address for clients."""
        return f"{HOST}:{self.port}"

    @property
    def log(self) -> Path:
        """The broker's log: warnings and errors."""
        return self.data / "broker.log"

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> Self:
        """Start and wait until it answers; SequencerError with the log's end where it does not."""
        if self.pid:
            return self
        if _answers(self.port):
            raise ConfigError(
                f"Port {self.port} is taken.", "No broker was started.", "Give another --port."
            )
        command = [java(), *JVM, *LOGGING, "-cp", os.pathsep.join(map(str, broker_classpath()))]
        _make_folder(self.data)
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES_MAX:
            self.log.rename(self.log.with_suffix(".log.1"))
        settings = self._write_settings()
        with self._lock() as lock, self.log.open("ab") as log:
            begin = log.tell()
            self._format(command, settings, log)
            self._process = _start_attached([*command, "kafka.Kafka", str(settings)], log, lock)
            lock.seek(0)
            lock.write(f"{self._process.pid}\n")
        try:
            self._wait_until_up(begin)
        except BaseException:  # Ctrl-C too
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Shut down cleanly; by force after 30 s."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill -9, for tests; :meth:`start` goes on with the same data and port."""
        self._end(signal.SIGKILL)

    def failed(self, what: str, begin: int = 0) -> SequencerError:
        """An error with the end of the log, as far as that was written after byte ``begin``."""
        tail = self.log.read_bytes()[begin:].decode(errors="replace").splitlines()[-15:]
        return SequencerError(
            f"{what}; the end of {self.log}:\n" + "\n".join(tail) + "\n",
            "No broker runs.",
            "Look at the properties given, and at the whole log; a damaged data folder can be "
            "removed.",
        )

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Shut down, and remove the folder where that is temporary."""
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

    def _lock(self) -> IO[str]:
        """The data folder's lock, which the broker's process inherits and holds while it lives."""
        lock = (self.data / "broker.lock").open("a+")
        deadline = time.monotonic() + LOCK_SECONDS_MAX
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < deadline:  # one that was killed may need a moment to go
                    time.sleep(0.1)
                    continue
                lock.seek(0)
                pid = lock.read().strip() or "another"
                lock.close()
                raise ConfigError(
                    f"A broker (process {pid}) already uses {self.data}.",
                    "No other was started.",
                    "Use that one, stop it, or give another --data.",
                ) from None
            lock.truncate(0)
            return lock

    def _format(self, command: list[str], settings: Path, log: IO[bytes]) -> None:
        """Prepare a new data folder; one that has been prepared is left unchanged."""
        if (self.data / "logs" / "meta.properties").exists():
            return
        arguments = [SHORT_LIVED, "kafka.tools.StorageTool", "format", f"--cluster-id={CLUSTER}"]
        arguments += ["--ignore-formatted", "--config", str(settings)]
        try:
            subprocess.run(
                [*command, *arguments],
                env=java_environment(),
                stdout=log,
                stderr=log,
                timeout=START_SECONDS_MAX,
                check=True,
            )
        except subprocess.SubprocessError as error:
            raise self.failed("The broker's data folder could not be prepared", 0) from error

    def _write_settings(self) -> Path:
        extra = dict(self._properties)
        controller = f"CONTROLLER://{HOST}:{self.controller_port}"
        plain = f"PLAINTEXT://{self.bootstrap}"
        more = [extra.pop(name, "") for name in LISTENERS]
        listeners = [plain, controller, *filter(None, more[:1])]
        advertised = [plain, *filter(None, [more[1] or more[0]])]
        settings = {
            **SETTINGS,
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(advertised),
            "controller.quorum.voters": f"1@{controller.removeprefix('CONTROLLER://')}",
            "log.dirs": str(self.data / "logs"),
            **extra,
        }
        path = self.data / "server.properties"
        path.touch(mode=0o600)  # properties may carry passwords
        path.write_text("".join(f"{name}={_escaped(text)}\n" for name, text in settings.items()))
        return path

    def _wait_until_up(self, begin: int) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while self.pid and time.monotonic() < deadline:
            if _answers(self.port) and serves(self.bootstrap):
                return
            time.sleep(0.1)
        late = self.pid is not None
        self.kill()
        what = f"did not answer within {START_SECONDS_MAX} s" if late else "ended at once"
        raise self.failed(f"The broker {what}", begin)


def _make_folder(path: Path) -> None:
    why = "Kafka takes what follows a comma for another folder" if "," in str(path) else None
    try:
        if why is None:
            path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = error.strerror
    if why:
        raise ConfigError(
            f"{path} cannot be a data folder: {why}.",
            "No broker was started.",
            "Give another --data.",
        )


def _escaped(text: str) -> str:
    """A value as Java's properties files have it: Latin-1, the rest as UTF-16 units."""
    text = str(text).replace("\\", "\\\\").replace("\n", "\\n")
    if text[:1].isspace():
        text = "\\" + text
    units = text.encode("utf-16-be").hex(" ", 2).split()
    return "".join(chr(int(u, 16)) if int(u, 16) < 0x7F else f"\\u{u}" for u in units)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def serves(bootstrap: str) -> bool:
    """Return whether a Kafka answers there."""
    from confluent_kafka import KafkaException  # noqa: PLC0415  (a quick --help)
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    try:
        return bool(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=2).brokers)
    except KafkaException:
        return False


def _start_attached(command: list[str], log: IO[bytes], lock: IO[str]) -> subprocess.Popen[bytes]:
    """Start a process that ends with this one, also where this one is killed (Linux).

    Linux ends it when the *thread* that started it ends, so a thread of its own starts it and
    lives as long as it does. The process inherits ``lock``.
    """
    if sys.platform == "linux":
        command = [sys.executable, "-I", "-S", "-c", ATTACHED, str(os.getpid()), *command]
    started: list[subprocess.Popen[bytes]] = []
    failures: list[Exception] = []
    ready = threading.Event()

    def live() -> None:
        try:
            started.append(
                subprocess.Popen(
                    command,
                    env=java_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[lock.fileno()],
                    start_new_session=True,  # Ctrl-C in a terminal is for us, not for the broker
                )
            )
        except OSError as error:
            failures.append(error)
            return
        finally:
            ready.set()
        started[0].wait()

    threading.Thread(target=live, name="broker", daemon=True).start()
    ready.wait(START_SECONDS_MAX)
    if failures:
        raise SequencerError(
            f"Java cannot be started: {failures[0]}.",
            "No broker was started.",
            "Install Java 17 or newer, or set JAVA_HOME.",
        ) from failures[0]
    return started[0]
