"""A way that loses messages before Kafka: what asking for them brings, beside only waiting.

Two pipelines of examples/clients.toml get the same messages, each from a LabelledProducer of its
own, over a way that loses one in a hundred, copies that are sent again among them. `asking` asks
for what is missing, and its producer keeps what it sent; `patient` only waits. At the end a sender
is gone, and nobody answers for it.
"""

import json
import random
import sys
import threading
import time
from collections import Counter
from statistics import median, quantiles

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from streaming import LabelledProducer

LOST = 0.01
CHANNELS = 20
GONE = 10
SECONDS_MAX = 240.0


def make_topics(kafka: dict[str, str], names: list[str]) -> None:
    """Create topics, except those that are there."""
    admin = AdminClient({**kafka, "log_level": "4"})
    for future in admin.create_topics([NewTopic(name, 2) for name in names]).values():
        try:
            future.result(60)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def reader(kafka: dict[str, str], topics: list[str]) -> Consumer:
    """A consumer of committed records, from the beginning on."""
    more = {"group.id": f"{topics[0]}-lossy", "auto.offset.reset": "earliest"}
    often = {"topic.metadata.refresh.interval.ms": 1000}
    consumer = Consumer({**kafka, **more, **often, "isolation.level": "read_committed"})
    consumer.subscribe(topics)
    return consumer


class Way(threading.Thread):
    """Carries what producers send to the pipelines' inputs, and loses some of it.

    ``lost``: when a message was lost first. Of channels `gone…` every other message is lost, and
    of what has the header `end` none.
    """

    def __init__(self, kafka: dict[str, str], pipelines: list[str]) -> None:
        super().__init__(daemon=True)
        self.lost: dict[tuple[str, bytes, bytes], float] = {}
        self.ended = threading.Event()
        self.consumer = reader(kafka, [f"{each}.way" for each in pipelines])
        self.producer = Producer({**kafka, "linger.ms": 5, "partitioner": "murmur2_random"})

    def run(self) -> None:
        """Until `ended` is set."""
        rng = random.Random(7)  # noqa: S311  (chance is what is wanted)
        while not self.ended.is_set():
            for message in self.consumer.consume(1000, 0.05):
                if message.error():
                    continue
                pipeline = message.topic().removesuffix(".way")
                headers = dict(message.headers())
                label = headers["label"]
                is_gone = message.key().startswith(b"gone") and int(label) % 2
                if "end" not in headers and (is_gone or rng.random() < LOST):
                    place = (pipeline, message.key(), label)
                    self.lost.setdefault(place, time.monotonic())
                    continue
                self.producer.produce(
                    f"{pipeline}.in",
                    message.value(),
                    message.key(),
                    headers=message.headers(),
                    timestamp=message.timestamp()[1],
                )
            self.producer.poll(0)
        self.producer.flush(60)
        self.consumer.close()


class Ends(threading.Thread):
    """Where messages end: delivered, given up, or asked for."""

    def __init__(self, kafka: dict[str, str], pipelines: list[str], way: Way) -> None:
        super().__init__(daemon=True)
        self.way = way
        self.back_s: dict[str, list[float]] = {each: [] for each in pipelines}
        self.counts: Counter[tuple[str, str]] = Counter()
        self.ended = threading.Event()
        asked = [f"{pipelines[0]}.wanted"]
        topics = [f"{each}.{what}" for each in pipelines for what in ("out", "events")] + asked
        self.consumer = reader(kafka, topics)

    def run(self) -> None:
        """Until `ended` is set."""
        while not self.ended.is_set():
            for message in self.consumer.consume(1000, 0.05):
                if not message.error():
                    pipeline, _, what = message.topic().rpartition(".")
                    self.take(message, pipeline, what)
        self.consumer.close()

    def take(self, message: object, pipeline: str, what: str) -> None:
        """Count one record."""
        who = " of gone senders" if message.key().startswith(b"gone") else ""
        if what == "events":
            event = json.loads(message.value())
            if event["event"] == "gap":
                self.counts[pipeline, "given up" + who] += event["count"]
            return
        self.counts[pipeline, what + who] += 1
        if what == "out":
            place = (pipeline, message.key(), dict(message.headers())["label"])
            if place in self.way.lost:
                self.back_s[pipeline].append(time.monotonic() - self.way.lost[place])

    def until(self, pipeline: str, count: int, who: str = "") -> None:
        """Wait until so many messages are delivered or given up."""
        deadline = time.monotonic() + SECONDS_MAX
        names = [(pipeline, what + who) for what in ("out", "given up")]
        while sum(self.counts[name] for name in names) < count:
            if time.monotonic() > deadline:
                raise SystemExit(f"{pipeline}: {self.counts}; is the service running?")
            time.sleep(0.05)


def send(producer: LabelledProducer, messages: int, per_second: float) -> None:
    """So many messages of each channel at this rate, and one that is not lost behind them."""
    began = time.monotonic()
    for n in range(messages):
        for channel in range(CHANNELS):
            producer.send(f"c{channel}", b"%d" % n)
        time.sleep(max(0.0, began + n * CHANNELS / per_second - time.monotonic()))
    for channel in range(CHANNELS):
        producer.send(f"c{channel}", b"last", [("end", b"")])
    producer.flush()


def main(
    address: str = "localhost:9092",
    asking: str = "asking",
    patient: str = "patient",
    messages: str = "100",
    per_second: str = "2000",
) -> None:
    """Send over the way, wait until all is delivered or given up, and print what came of it."""
    kafka = {"bootstrap.servers": address}
    make_topics(kafka, [f"{asking}.way", f"{patient}.way"])
    way = Way(kafka, [asking, patient])
    ends = Ends(kafka, [asking, patient], way)
    way.start()
    ends.start()
    producers = {
        each: LabelledProducer(
            kafka,
            f"{each}.way",
            keep=10_000 if each == asking else 0,
            wanted=f"{each}.wanted",
            commands=f"{each}.commands",
        )
        for each in (asking, patient)
    }
    how = (int(messages), float(per_second))
    senders = [threading.Thread(target=send, args=(each, *how)) for each in producers.values()]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    sent = CHANNELS * (int(messages) + 1)
    for pipeline, producer in producers.items():
        ends.until(pipeline, sent)
        lost = sum(name == pipeline for name, _, _ in way.lost)
        told = [f"{lost} of {sent} lost on the way", f"{len(ends.back_s[pipeline])} came back"]
        told.append(f"{ends.counts[pipeline, 'given up']} given up")
        if producer.resent:
            times = sorted(ends.back_s[pipeline])
            last = quantiles(times, n=100)[98]
            told.append(f"back after {median(times):.1f} s (median), {last:.1f} s (99 %)")
            told.append(f"{ends.counts[pipeline, 'wanted']} requests")
        print(f"{'asking' if pipeline == asking else 'patient'}:", ", ".join(told))
    for producer in producers.values():
        producer.close()
    gone = LabelledProducer(kafka, f"{asking}.way")
    for channel in range(GONE):
        for _ in range(3):
            gone.send(f"gone{channel}", b"")
    gone.close()
    ends.until(asking, 3 * GONE, " of gone senders")
    requests = ends.counts[asking, "wanted of gone senders"]
    print(f"gone senders: {GONE} holes, {requests} requests, all given up")
    for thread in (way, ends):
        thread.ended.set()
        thread.join(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
