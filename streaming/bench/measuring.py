"""Measure a channel pipeline with the defaults: its rate behind a backlog, then its latency.

Everything runs as users run it: a broker of its own or the one of SEQUENCER_BOOTSTRAP_SERVERS, and
`sequencer run` in processes of their own. The copy beside it reads and writes the same records with
librdkafka in one process, exactly once, and orders nothing. What is measured holds for this machine
and this moment: only the ratio of two figures of one run says more.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

from streaming.bench.sending import send, send_again
from streaming.errors import JobFailed, KafkaUnavailable
from streaming.kafka import connection
from streaming.kafka.embedded import EmbeddedBroker
from streaming.service.process import service_process

BLOCK = 20
"""Labels of a channel are out of order within blocks of this length."""
PARTITIONS = 4
START_SECONDS_MAX = 180
QUIET_SECONDS_MAX = 120
WARM_SECONDS = 15
COPY_RECORDS = 20_000
"""In one transaction of the copy."""
CONFIG = """\
[service]
name = "{name}"
checkpoint = "{folder}/{name}"

[kafka]
bootstrap_servers = "{bootstrap}"

[pipelines.bench]
discipline = "channel"
input = "{input}"
output = "{name}.out"
rejects = "{name}.rejects"
events = "{name}.events"
commands = "{name}.commands"
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to measure: ``messages`` of ``size`` bytes in ``channels``, then ``rate`` a second."""

    @classmethod
    def of(cls, messages: int, channels: int, size: int, rate: float, seconds: float) -> Wanted:
        """Return what comes nearest and has whole blocks of labels in each channel."""
        channels = max(1, min(channels, messages // BLOCK))
        each = max(1, messages // (channels * BLOCK)) * BLOCK
        return cls(each * channels, channels, size, rate, seconds)

    messages: int
    channels: int
    size: int
    rate: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Measured:
    """Rates in records a second, times in seconds; None: not asked for."""

    messages: int
    ordered_rate: float
    copied_rate: float
    first_output_seconds: float
    p50_seconds: float | None
    p99_seconds: float | None

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**asdict(self), "ratio": self.ordered_rate / self.copied_rate}


def labels(channels: int) -> Iterator[tuple[int, int]]:
    """Return channel and label of message after message, each BLOCK of a channel out of order."""
    draw = random.Random(1)  # noqa: S311  (no secret)
    orders = [draw.sample(range(BLOCK), BLOCK) for _ in range(100)]
    for turn in count():
        block, at = divmod(turn, BLOCK)
        for channel in range(channels):
            yield channel, block * BLOCK + orders[channel % len(orders)][at]


def measure(wanted: Wanted, say: Callable[[str], None]) -> Measured:
    """Measure; raises JobFailed where the service fails, KafkaUnavailable where Kafka does."""
    folder = Path(tempfile.mkdtemp(prefix="sequencer-bench-"))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        bootstrap = os.environ.get("SEQUENCER_BOOTSTRAP_SERVERS", "")
        if not bootstrap:
            say("starting a Kafka broker on this machine …")
            bootstrap = stack.enter_context(EmbeddedBroker(folder / "kafka")).bootstrap
        bench = _Bench(folder, bootstrap, wanted, say)
        stack.callback(bench.remove)
        return bench.run()


class _Bench:
    """One run: while latency is measured, a second thread sends, with a producer of its own."""

    def __init__(
        self, folder: Path, bootstrap: str, wanted: Wanted, say: Callable[[str], None]
    ) -> None:
        self.folder, self.bootstrap, self.wanted, self.say = folder, bootstrap, wanted, say
        self.name = f"bench-{int(time.time())}"
        self.topics: list[str] = []

    def run(self) -> Measured:
        """All parts, one after the other."""
        source = f"{self.name}.in"
        self._create(source)
        self.say(f"writing {self.wanted.messages:,} messages …")
        self._fill(source)
        self.say("copying them with librdkafka, exactly once …")
        copied = self._copy(source)
        self.say("putting them in order: sequencer run --once …")
        first, ordered = self._order(source)
        p50 = p99 = None
        if self.wanted.seconds:
            self.say(f"latency at {self.wanted.rate:,.0f} a second …")
            p50, p99 = self._latency()
        return Measured(self.wanted.messages, ordered, copied, first, p50, p99)

    def remove(self) -> None:
        """Delete the topics that this made."""
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415  (a quick --help)

        admin = connection.client(AdminClient, {"bootstrap.servers": self.bootstrap})
        names = [
            name
            for name in admin.list_topics(timeout=10).topics
            if name.partition(".")[0].startswith(self.name)
        ]
        for future in admin.delete_topics(names).values() if names else ():
            with contextlib.suppress(Exception):
                future.result(10)

    def _create(self, *names: str) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic  # noqa: PLC0415

        admin = connection.client(AdminClient, {"bootstrap.servers": self.bootstrap})
        kept = {"retention.ms": "-1"}
        new = [NewTopic(name, PARTITIONS, config=kept) for name in names]
        for name, future in admin.create_topics(new).items():
            try:
                future.result(30)
            except Exception as error:
                raise KafkaUnavailable(
                    f"{name} could not be made: {error}.", "Nothing was measured."
                ) from error
        deadline = time.monotonic() + START_SECONDS_MAX
        while not set(names) <= admin.list_topics(timeout=30).topics.keys():
            if time.monotonic() > deadline:
                raise KafkaUnavailable(
                    f"{', '.join(names)} do not appear.",
                    "Nothing was measured.",
                    "Run it again when the brokers are at rest.",
                )
            time.sleep(0.1)

    def _client(self, **more: Any) -> dict[str, Any]:
        return {"bootstrap.servers": self.bootstrap, **more}

    def _producer(self, **more: Any) -> Any:
        from confluent_kafka import Producer  # noqa: PLC0415

        tuned = {
            "linger.ms": 20,
            "compression.type": "lz4",
            "batch.size": 512 * 1024,
            "queue.buffering.max.messages": 1_000_000,
            "partitioner": "murmur2_random",
        }
        return connection.client(Producer, self._client(**tuned, **more))

    def _fill(self, topic: str) -> None:
        producer, value = self._producer(), os.urandom(self.wanted.size)
        for channel, label in islice(labels(self.wanted.channels), self.wanted.messages):
            send(producer, topic, b"c%d" % channel, value, label)
        producer.flush(QUIET_SECONDS_MAX)

    def _reader(self, topic: str, begin: bool) -> Any:
        from confluent_kafka import (  # noqa: PLC0415
            OFFSET_BEGINNING,
            OFFSET_END,
            Consumer,
            TopicPartition,
        )

        consumer = connection.client(
            Consumer,
            self._client(
                **{
                    "group.id": f"{self.name}-reader",
                    "enable.auto.commit": False,
                    "isolation.level": "read_committed",
                    "fetch.wait.max.ms": 10,
                }
            ),
        )
        at = OFFSET_BEGINNING if begin else OFFSET_END
        consumer.assign([TopicPartition(topic, number, at) for number in range(PARTITIONS)])
        return consumer

    def _copy(self, source: str) -> float:
        """Return the rate of a copy that does nothing else, records a second."""
        target = f"{self.name}-copy.out"
        self._create(target)
        consumer = self._reader(source, begin=True)
        producer = self._producer(**{"transactional.id": f"{self.name}-copy"})
        producer.init_transactions(60)
        begun, copied, moved = time.monotonic(), 0, time.monotonic()
        try:
            while copied < self.wanted.messages:
                messages = [
                    each for each in consumer.consume(COPY_RECORDS, 0.5) if not each.error()
                ]
                if not messages:
                    if time.monotonic() - moved > QUIET_SECONDS_MAX:
                        raise KafkaUnavailable("The copy reads nothing.", "Nothing was measured.")
                    continue
                moved = time.monotonic()
                producer.begin_transaction()
                for each in messages:
                    send_again(producer, target, each)
                producer.commit_transaction(60)
                copied += len(messages)
        finally:
            consumer.close()
        return copied / (time.monotonic() - begun)

    def _order(self, source: str) -> tuple[float, float]:
        """Return the seconds to the first output, and the rate from then on, records a second."""
        name = f"{self.name}-order"
        self._create(f"{name}.out")
        consumer = self._reader(f"{name}.out", begin=True)
        begun = time.monotonic()
        first, last, done = 0.0, begun, 0
        try:
            with self._service(name, source, "--once") as service:
                while done < self.wanted.messages:
                    messages = [each for each in consumer.consume(50_000, 0.1) if not each.error()]
                    now = time.monotonic()
                    if messages:
                        first = first or now
                        last, done = now, done + len(messages)
                    elif service.poll() is not None and now - last > 5:
                        raise self._failed(name, f"{done:,} of {self.wanted.messages:,} came")
                    elif now - last > START_SECONDS_MAX:
                        raise self._failed(name, "nothing came for long")
        finally:
            consumer.close()
        return first - begun, done / max(last - first, 1e-3)

    def _latency(self) -> tuple[float, float]:
        """Return p50 and p99 of the time from a message's timestamp to its reader, s."""
        name = f"{self.name}-latency"
        source = f"{name}.in"
        self._create(source, f"{name}.out")
        consumer = self._reader(f"{name}.out", begin=True)
        producer, stop = self._producer(), threading.Event()
        sender = threading.Thread(target=self._send, args=(producer, source, stop), daemon=True)
        waits: list[float] = []
        try:
            with self._service(name, source) as service:
                sender.start()
                warm = 0.0
                begun = time.monotonic()
                while not warm or time.monotonic() < warm + self.wanted.seconds:
                    for each in consumer.consume(1_000, 0.05):
                        if each.error():
                            continue
                        warm = warm or time.monotonic() + WARM_SECONDS
                        if time.monotonic() > warm:
                            waits.append(time.time() - each.timestamp()[1] / 1000)
                    if service.poll() is not None or (
                        not warm and time.monotonic() - begun > START_SECONDS_MAX
                    ):
                        raise self._failed(name, "nothing is delivered")
        finally:
            stop.set()
            sender.join(30)
            consumer.close()
        waits.sort()
        return waits[len(waits) // 2], waits[len(waits) * 99 // 100]

    def _send(self, producer: Any, topic: str, stop: threading.Event) -> None:
        value, begun = os.urandom(self.wanted.size), time.monotonic()
        for number in count():  # in order: what waits for a label is no latency of the service
            label, channel = divmod(number, self.wanted.channels)
            ahead = begun + number / self.wanted.rate - time.monotonic()
            if stop.is_set() or (ahead > 0.005 and stop.wait(ahead)):
                break
            send(producer, topic, b"c%d" % channel, value, label)
        producer.flush(30)

    @contextlib.contextmanager
    def _service(self, name: str, source: str, *more: str) -> Iterator[subprocess.Popen[bytes]]:
        path = self.folder / f"{name}.toml"
        values = {"name": name, "folder": self.folder, "bootstrap": self.bootstrap}
        path.write_text(CONFIG.format(**values, input=source))
        with service_process(path, self.folder / f"{name}.log", *more) as process:
            yield process

    def _failed(self, name: str, what: str) -> JobFailed:
        log = (self.folder / f"{name}.log").read_text(errors="replace").splitlines()
        return JobFailed(f"The service failed: {what}.\n" + "\n".join(log[-12:]))
