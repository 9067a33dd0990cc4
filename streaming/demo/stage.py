"""What all demos share: a broker, the service in a process of its own, clients, the last word."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from streaming.arrow.totals import Totals
from streaming.config import Config
from streaming.demo.page import Course, write
from streaming.errors import ConfigError, JobFailed
from streaming.kafka import connection
from streaming.kafka.embedded import EmbeddedBroker
from streaming.service.checkpoint import Checkpoint
from streaming.service.process import service_process
from streaming.spark.class_archive import RECORDING
from streaming.terminal import color_system

T = TypeVar("T")

CAUSE = "after"
WARM_UP = 5
START_SECONDS_MAX = 180
QUIET_SECONDS_MAX = 120
SERVICE = """\
[service]
name = "demo-{stamp}"
checkpoint = "{folder}/checkpoints"
shards = 8

[kafka]
bootstrap_servers = "{bootstrap}"

"""


class Stage(ABC):
    """One run of a demo: ``count`` messages or so, at ``per_second``.

    A demo says in ``pipelines`` what is configured below SERVICE; ``{topic}`` begins the names of
    its topics. ``watched`` is the pipeline whose figures are shown.

    Each job has a thread of its own; they share ``began``, ``stopping`` and ``failures`` (appended
    to).
    """

    watched: str
    pipelines: str

    def __init__(self, count: int, per_second: float, seed: int, keep: Path | None) -> None:
        self.folder = (keep or Path(tempfile.mkdtemp(prefix="sequencer-demo-"))).resolve()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"--keep {keep} cannot be a folder: {error.strerror}.",
                "Nothing was started.",
                "Name another folder.",
            ) from error
        self.keep = keep is not None
        if (self.folder / "demo.toml").exists():  # its checkpoint would be taken for this one's
            raise ConfigError(
                f"--keep {keep} holds an earlier demo.",
                "Nothing was started; it was not changed.",
                "Name another folder, or remove this one.",
            )
        self.count, self.per_second, self.seed = count, per_second, seed
        self.topic = f"demo-{int(time.time())}"
        self.bootstrap = ""
        self.began = threading.Event()
        self.stopping = threading.Event()
        self.failures: list[BaseException] = []
        self.threads: list[threading.Thread] = []
        self.course = Course()
        self.totals = Totals()

    @abstractmethod
    def prepare(self) -> None:
        """Read the data and plan what is to be sent, before anything starts."""

    @abstractmethod
    def jobs(self) -> list[tuple[Callable[..., None], tuple[Any, ...]]]:
        """The clients: functions that run in threads until they are done or `stopping` is set."""

    @abstractmethod
    def expected(self) -> int:
        """Return how many records the watched pipeline will have read in the end."""

    @abstractmethod
    def picture(self, totals: Totals, batch: dict[str, Any]) -> Any:
        """What to show meanwhile, for rich."""

    @abstractmethod
    def sent(self) -> int:
        """Return how many records were sent so far."""

    def drawn(self, _config: Config) -> list[tuple[str, str]]:
        """Return pictures for the page at the end: captions and SVG."""
        return []

    def run(self) -> bool:
        """Show it all; True where the topics show perfect order."""
        self.prepare()
        with contextlib.ExitStack() as stack:
            stack.callback(self._tidy)
            self.bootstrap = (
                os.environ.get("SEQUENCER_BOOTSTRAP_SERVERS")
                or os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
                or ""
            )
            if not self.bootstrap:
                announce("starting a Kafka broker on this machine …")
                broker = stack.enter_context(EmbeddedBroker(self.folder / "kafka"))
                self.bootstrap = broker.bootstrap
            config = self._write_config()
            announce("starting the service (Spark needs some seconds) …")
            log = self.folder / "service.log"
            running = service_process(config, log, **{RECORDING: "no"})
            service = stack.enter_context(running)
            stack.callback(self._end_threads)
            for job, arguments in self.jobs():
                self._start(job, arguments)
            self._watch(service)
            service.send_signal(signal.SIGTERM)  # all is delivered; it stops while we judge
            is_good = self._judge(config)
            self._write_page(config)
            service.wait(60)
            return is_good

    def producer(self) -> Any:
        """A producer as a sender would have it."""
        from confluent_kafka import Producer  # noqa: PLC0415  (a quick --help)

        return connection.client(
            Producer,
            {"bootstrap.servers": self.bootstrap, "partitioner": "murmur2_random", "linger.ms": 20},
        )

    def paced(self, items: Sequence[T], at: Callable[[T], float]) -> Iterator[T]:
        """The items at their times (s from the start), until the demo stops.

        The first few come at once and the rest when the service has delivered something: Spark's
        first batch takes long, and the rest is worth watching.
        """
        start = time.monotonic()
        for index, item in enumerate(items):
            if index == WARM_UP:
                self.began.wait(START_SECONDS_MAX)
                start = time.monotonic() - at(item)
            pause = 0.0 if index < WARM_UP else start + at(item) - time.monotonic()
            if pause > 0.01 and self.stopping.wait(pause):
                return
            yield item

    def deliveries(self, topic: str) -> Iterator[Any]:
        """The messages of an ordered topic while the demo runs; the first says that it began."""
        from confluent_kafka import Consumer  # noqa: PLC0415

        consumer = connection.client(
            Consumer,
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"{self.topic}-reader",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            },
        )
        consumer.subscribe([topic])
        try:
            while not self.stopping.is_set():
                message = consumer.poll(0.2)
                if message is not None and not message.error():
                    self.began.set()
                    yield message
        finally:
            consumer.close()

    def _write_config(self) -> Path:
        from streaming.config import load_config  # noqa: PLC0415
        from streaming.kafka import topics  # noqa: PLC0415  (a quick --help)

        path = self.folder / "demo.toml"
        filled = SERVICE.format(
            stamp=self.topic[5:], folder=self.folder, bootstrap=self.bootstrap
        ) + self.pipelines.replace("{topic}", self.topic)
        path.write_text(filled)
        topics.create(load_config(path), inputs=True)
        return path

    def _start(self, job: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        thread = threading.Thread(target=self._guard, args=(job, arguments), daemon=True)
        thread.start()
        self.threads.append(thread)

    def _guard(self, job: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        try:
            job(*arguments)
        except Exception as failure:  # noqa: BLE001  (shown by the watching thread)
            self.failures.append(failure)

    def _end_threads(self) -> None:
        self.stopping.set()
        for thread in self.threads:
            thread.join(10)

    def _watch(self, service: subprocess.Popen[bytes]) -> None:
        """Show a moving table until every message has ended somewhere."""
        from rich.console import Console  # noqa: PLC0415
        from rich.live import Live  # noqa: PLC0415

        console = Console(stderr=True, color_system=color_system())
        checkpoint = Checkpoint(str(self.folder / "checkpoints"), self.watched)
        totals, changed = Totals(), time.monotonic()
        live = Live(console=console, refresh_per_second=4) if console.is_terminal else None
        with live or contextlib.nullcontext():
            said = 0.0
            while not self._through(totals):
                if service.poll() is not None:
                    raise JobFailed(
                        f"The service ended with status {service.returncode}:\n{self._log_end()}"
                    )
                if self.failures:
                    raise JobFailed(f"A client of the demo failed: {self.failures[0]!r}.")
                batch = checkpoint.status()
                shards = batch.get("shards", {}).values()
                now = Totals.sum(Totals(**shard) for shard in shards)
                if now.seen != totals.seen:
                    changed = time.monotonic()
                totals = now
                self.course.note(
                    time.monotonic(),
                    **{"in": totals.seen, "delivered": totals.delivered, "held": totals.held},
                )
                self.totals = totals
                if time.monotonic() - changed > START_SECONDS_MAX + QUIET_SECONDS_MAX:
                    raise JobFailed(f"Nothing moved for long:\n{self._log_end()}")
                if live:
                    live.update(self.picture(totals, batch))
                elif time.monotonic() - said > 5:
                    said = time.monotonic()
                    announce(
                        f"{self.sent():,} sent, {totals.seen:,} in, {totals.delivered:,} "
                        f"delivered, {totals.held:,} held"
                    )
                time.sleep(0.25)

    def _through(self, totals: Totals) -> bool:
        """Return whether all is read, and nothing is on its way between shards."""
        return totals.seen >= self.expected() and not totals.transit

    def _judge(self, config: Path) -> bool:
        from streaming.verify.report import report_on  # noqa: PLC0415

        announce("judging the order from the topics alone …")
        return report_on(config, causes=CAUSE)

    def _write_page(self, config: Path) -> None:
        from streaming.config import load_config  # noqa: PLC0415

        folder = self.folder if self.keep else Path(tempfile.mkdtemp(prefix="sequencer-demo-page-"))
        path = folder / "demo.html"
        counts = {
            "records in": self.totals.seen,
            "delivered in order": self.totals.delivered,
            **{f"rejected: {name}": count for name, count in self.totals.rejected.items()},
            "held at the end": self.totals.held,
        }
        title = f"sequencer demo: {self.watched}"
        write(path, title, counts, self.course, self.drawn(load_config(config)))
        announce(f"pictures of this run: {path}")
        if self.keep:
            announce(f"To look at what is kept:\n{self.how_to_look()}")

    def how_to_look(self) -> str:
        """Return the commands that show what was kept; the first starts the demo's own broker."""
        data, config = (shlex.quote(str(self.folder / name)) for name in ("kafka", "demo.toml"))
        port = self.bootstrap.rpartition(":")[2]
        has_broker = (self.folder / "kafka").exists()
        broker = [f"  sequencer broker --port {port} --data {data} &"] * has_broker
        look = f"  sequencer verify {config}   # also status, inspect; tail TOPIC --config …"
        return "\n".join([*broker, look])

    def _log_end(self) -> str:
        lines = (self.folder / "service.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-12:])

    def _tidy(self) -> None:
        if not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)


def cause(read: Any) -> tuple[str, bytes]:
    """The header of a record that is sent because of a delivery that was ``read``."""
    return CAUSE, f"{read.topic()}/{read.partition()}@{read.offset()}".encode()


def announce(text: str) -> None:
    """A line for people."""
    print(text, file=sys.stderr, flush=True)
