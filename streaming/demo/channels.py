"""The channel demo: airports publish in disorder, the service orders, the topics are judged."""

from __future__ import annotations

import collections
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streaming import kafka
from streaming.checkpoint import Checkpoint
from streaming.demo import flights
from streaming.embedded import EmbeddedBroker
from streaming.errors import JobFailed
from streaming.totals import Totals

PIPELINE = "flights"
PARTITIONS = 4
SHOWN = 6
WARM_UP = 5
START_SECONDS_MAX = 180
QUIET_SECONDS_MAX = 120
CONFIG = """\
[service]
name = "demo-{stamp}"
checkpoint = "{folder}/checkpoints"
shards = 8

[kafka]
bootstrap_servers = "{bootstrap}"

[pipelines.{pipeline}]
discipline = "channel"
input = ["{topic}.in"]
output = "{topic}.out"
rejects = "{topic}.rejects"
events = "{topic}.events"
"""


class Demo:
    """One run of the demo; ``count`` flights (0: the whole year) at ``per_second``."""

    def __init__(self, count: int, per_second: float, seed: int, keep: Path | None) -> None:
        self.folder = (keep or Path(tempfile.mkdtemp(prefix="sequencer-demo-"))).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.keep = keep is not None
        self.count, self.per_second, self.seed = count, per_second, seed
        self.topic = f"demo-{int(time.time())}"
        self.sent = dict.fromkeys(flights.AIRPORTS, 0)
        self.arrived: dict[str, collections.deque[str]] = {}
        self.delivered: dict[str, collections.deque[str]] = {}
        self.stopping = threading.Event()
        self.failures: list[BaseException] = []
        self.threads: list[threading.Thread] = []

    def run(self) -> bool:
        """Show it all; True where the topics show perfect order."""
        told("reading the flights of 2013 …")
        frame = flights.load(self.count)
        plan = flights.messages(frame, self.per_second, self.seed)
        busiest = frame["tailnum"].value_counts().index[:SHOWN]
        self.arrived = {name: collections.deque(maxlen=9) for name in busiest}
        self.delivered = {name: collections.deque(maxlen=9) for name in busiest}
        with contextlib.ExitStack() as stack:
            stack.callback(self._tidy)
            bootstrap = os.environ.get("SEQUENCER_BOOTSTRAP_SERVERS") or os.environ.get(
                "KAFKA_BOOTSTRAP_SERVERS"
            )
            if not bootstrap:
                told("starting a Kafka broker on this machine …")
                broker = stack.enter_context(EmbeddedBroker(self.folder / "kafka"))
                bootstrap = broker.bootstrap
            config = self._write_config(bootstrap)
            told("starting the service (Spark needs some seconds) …")
            service = stack.enter_context(self._service(config))
            stack.callback(self._end_threads)
            self._start_threads(plan, bootstrap)
            self._watch(service, sum(len(each) for each in plan.values()))
            told("stopping the service …")
            service.send_signal(signal.SIGTERM)
            service.wait(60)
            return self._judge(config)

    def _write_config(self, bootstrap: str) -> Path:
        from streaming import topics  # noqa: PLC0415  (a quick --help)
        from streaming.config import load_config  # noqa: PLC0415

        path = self.folder / "demo.toml"
        path.write_text(
            CONFIG.format(
                stamp=self.topic[5:],
                folder=self.folder,
                bootstrap=bootstrap,
                pipeline=PIPELINE,
                topic=self.topic,
            )
        )
        topics.create(load_config(path), inputs=True)
        return path

    @contextlib.contextmanager
    def _service(self, config: Path) -> Iterator[subprocess.Popen[bytes]]:
        """`sequencer run` in a process of its own, as users run it."""
        log = self.folder / "service.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "streaming.cli", "run", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(60)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()

    def _start_threads(self, plan: dict[str, list[flights.Message]], bootstrap: str) -> None:
        began = threading.Event()
        jobs: list[tuple[Any, tuple[Any, ...]]] = [
            (self._publish, (airport, each, bootstrap, began)) for airport, each in plan.items()
        ]
        jobs.append((self._consume, (bootstrap, began)))
        for job, arguments in jobs:
            thread = threading.Thread(target=self._guard, args=(job, arguments), daemon=True)
            thread.start()
            self.threads.append(thread)

    def _guard(self, job: Any, arguments: tuple[Any, ...]) -> None:
        try:
            job(*arguments)
        except Exception as failure:  # noqa: BLE001  (shown by the watching thread)
            self.failures.append(failure)

    def _publish(
        self,
        airport: str,
        plan: list[flights.Message],
        bootstrap: str,
        began: threading.Event,
    ) -> None:
        """One airport's producer."""
        from confluent_kafka import Producer  # noqa: PLC0415

        producer = Producer(
            {"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "linger.ms": 20},
            logger=kafka.quiet(),
        )
        start = time.monotonic()
        for place, message in enumerate(plan):
            if place == WARM_UP:  # Spark's first batch takes long; the rest is worth watching
                began.wait(START_SECONDS_MAX)
                start = time.monotonic() - message.at
            pause = 0.0 if place < WARM_UP else start + message.at - time.monotonic()
            if pause > 0.01 and self.stopping.wait(pause):
                return
            headers = [("label", message.label)] if message.label else []
            producer.produce(f"{self.topic}.in", message.value, message.key, headers=headers)
            producer.poll(0)
            self.sent[airport] += 1
            name = message.key.decode() if message.key else ""
            if name in self.arrived:
                self.arrived[name].append(message.label.decode())
        producer.flush(60)

    def _consume(self, bootstrap: str, began: threading.Event) -> None:
        """A reader of the ordered topic; lets the producers begin."""
        from confluent_kafka import Consumer  # noqa: PLC0415

        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"{self.topic}-reader",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            },
            logger=kafka.quiet(),
        )
        consumer.subscribe([f"{self.topic}.out"])
        while not self.stopping.is_set():
            message = consumer.poll(0.2)
            if message is None or message.error():
                continue
            began.set()
            name = (message.key() or b"").decode()
            if name in self.delivered:
                self.delivered[name].append(dict(message.headers() or [])["label"].decode())
        consumer.close()

    def _end_threads(self) -> None:
        self.stopping.set()
        for thread in self.threads:
            thread.join(10)

    def _watch(self, service: subprocess.Popen[bytes], expected: int) -> None:
        """Show a moving table until every message has ended somewhere."""
        from rich.console import Console  # noqa: PLC0415
        from rich.live import Live  # noqa: PLC0415

        console = Console(stderr=True)
        checkpoint = Checkpoint(str(self.folder / "checkpoints"), PIPELINE)
        totals, batch, changed = Totals(), {}, time.monotonic()
        live = Live(console=console, refresh_per_second=4) if console.is_terminal else None
        with live or contextlib.nullcontext():
            said = 0.0
            while totals.seen < expected:
                if service.poll() is not None:
                    raise JobFailed(
                        f"The service ended with status {service.returncode}:\n{self._log_end()}"
                    )
                if self.failures:
                    raise JobFailed(f"A client of the demo failed: {self.failures[0]!r}.")
                batch = checkpoint.status()
                shards = batch.get("shards", {}).values()
                now = Totals.sum(Totals(**each) for each in shards)
                if now.seen != totals.seen:
                    changed = time.monotonic()
                totals = now
                if time.monotonic() - changed > START_SECONDS_MAX + QUIET_SECONDS_MAX:
                    raise JobFailed(f"Nothing moved for long:\n{self._log_end()}")
                if live:
                    live.update(self._picture(totals, batch, expected))
                elif time.monotonic() - said > 5:
                    said = time.monotonic()
                    told(
                        f"{sum(self.sent.values()):,} of {expected:,} sent, {totals.seen:,} in, "
                        f"{totals.delivered:,} delivered, {totals.held:,} held"
                    )
                time.sleep(0.25)

    def _picture(self, totals: Totals, batch: dict[str, Any], expected: int) -> Any:
        from rich.columns import Columns  # noqa: PLC0415
        from rich.console import Group  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        flow = Table(title="flights", min_width=34)
        flow.add_column("")
        flow.add_column("messages", justify="right")
        for airport, count in self.sent.items():
            flow.add_row(f"{airport} sent", f"{count:,}")
        flow.add_row("read by the service", f"{totals.seen:,}")
        flow.add_row("held for a gap", f"{totals.held:,}", style="yellow")
        flow.add_row("delivered in order", f"{totals.delivered:,}", style="green")
        flow.add_row("rejected", f"{sum(totals.rejected.values()):,}", style="red")
        flow.add_row("aircraft waiting", f"{totals.blocked:,}")
        flow.add_row("last batch", f"{batch.get('batch_ms', 0):,} ms")
        planes = Table(title="labels of the busiest aircraft, as they …")
        for name in ("aircraft", "… arrived", "… were delivered"):
            planes.add_column(name, min_width=9)
        for name in self.arrived:
            planes.add_row(name, " ".join(self.arrived[name]), " ".join(self.delivered[name]))
        done = totals.seen / max(expected, 1)
        return Group(Columns([flow, planes]), Text(f"{done:.0%} of {expected:,} flights"))

    def _judge(self, config: Path) -> bool:
        from streaming.cli.verify import report_on  # noqa: PLC0415

        told("judging the order from the topics alone …")
        return report_on(config)

    def _log_end(self) -> str:
        lines = (self.folder / "service.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-12:])

    def _tidy(self) -> None:
        if not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)


def told(text: str) -> None:
    """A line for people."""
    print(text, file=sys.stderr, flush=True)
