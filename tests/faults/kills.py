"""Kill -9 again and again while clients go on: what the disciplines' fault tests share."""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Consumer, Producer

from tests.kafka_helpers import SECONDS_MAX
from tests.processes import python_workers
from tests.service_helpers import STOP_SECONDS_MAX, Service, status

Answer = Callable[[Any], tuple[str, bytes, bytes, list[tuple[str, bytes]], int] | None]
"""What a reader sends because of a delivery: topic, key, value, headers, partition."""


def through_kills(
    config: Path, turn: Callable[[int], None], *, kills: int, seconds: float, seed: int
) -> None:
    """Do each ``turn``, then run the service and kill it at a random moment after a delivery.

    After the last turn it is not run again.
    """
    rng = random.Random(seed)
    for number in range(kills + 1):
        turn(number)
        if number == kills:
            break
        with Service(config) as service:
            wait_at_random(service, rng, seconds)
            service.kill()


def wait_at_random(service: Service, rng: random.Random, seconds: float) -> None:
    """Wait until the service has delivered something, and up to so many seconds longer."""
    before = delivered(service.config)
    service.until(lambda: delivered(service.config) != before)
    time.sleep(rng.uniform(0, seconds))


def delivered(config: Path) -> dict[str, int]:
    return {name: each["delivered"] for name, each in status(config).items()}


STACK = re.compile(r"Traceback|Exception in thread|^\s+at [\w.$/]+\(", re.MULTILINE)


def stop_quietly(service: Service, times: int = 2) -> int:
    """SIGTERM to all processes of the service's group, again and again; the exit status."""
    for _ in range(times):
        os.killpg(service.process.pid, signal.SIGTERM)
        time.sleep(0.3)
    ended = service.wait(STOP_SECONDS_MAX)
    assert not STACK.search(service.said()), service.said()
    return ended


def kill_driver(service: Service) -> None:
    """kill -9 of the driver alone; the others of its group end by themselves."""
    group = service.process.pid
    service.process.kill()
    service.process.wait(STOP_SECONDS_MAX)
    deadline = time.monotonic() + STOP_SECONDS_MAX
    while members(group):
        assert time.monotonic() < deadline, members(group)
        time.sleep(0.2)


def kill_workers(service: Service) -> None:
    """kill -9 of those that pack, step and write; the service goes on."""
    for worker in python_workers(service.process.pid):
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


def members(group: int) -> list[int]:
    """The processes of a group that have not ended."""
    found = []
    for entry in filter(lambda each: each.name.isdigit(), Path("/proc").iterdir()):
        try:
            text = (entry / "stat").read_text()
        except OSError:  # it ended meanwhile
            continue
        state, _, its_group = text.rpartition(")")[2].split()[:3]
        if int(its_group) == group and state != "Z":
            found.append(int(entry.name))
    return found


class Reactor:
    """A reader of ordered topics that answers some of what it reads; a context manager.

    Leave it before the last run, so that the answers are worked through, too.
    """

    def __init__(self, bootstrap: str, topics: list[str], answer: Answer) -> None:
        self.bootstrap, self.topics, self.answer = bootstrap, topics, answer
        self.sent = 0
        self.failure: BaseException | None = None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._guard, daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.thread.join(2 * SECONDS_MAX)
        assert not self.thread.is_alive()
        assert self.failure is None, self.failure

    def _guard(self) -> None:
        try:
            self._react()
        except BaseException as failure:  # noqa: BLE001  (told by __exit__)
            self.failure = failure

    def _react(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"{self.topics[0]}-reactor",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "topic.metadata.refresh.interval.ms": 1000,
            }
        )
        consumer.subscribe(self.topics)
        producer = Producer(  # a message that is sent again is there once: they are counted
            {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 5}
        )
        while not self.stopping.is_set():
            for message in consumer.consume(1000, 0.2):
                answer = None if message.error() else self.answer(message)
                if answer is not None:
                    topic, key, value, headers, partition = answer
                    producer.produce(topic, value, key, partition, headers=headers)
                    self.sent += 1
            producer.poll(0)
        assert producer.flush(SECONDS_MAX) == 0
        consumer.close()
