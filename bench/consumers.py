"""Parallel readers: how much more n threads handle than one, where a handler waits 10 ms.

All readers read the same deliveries, of 200 channels in one partition, in turns; times are from the
first handler's begin to the last one's end. That each channel was handled in order is checked.
Needs a broker (`--bootstrap`), or starts one.
"""

import argparse
import statistics
import threading
import time
import uuid
from collections import defaultdict
from contextlib import nullcontext

from confluent_kafka import Producer
from harness import create, remove

from streaming import OrderedConsumer
from streaming.kafka.embedded import EmbeddedBroker

CHANNELS = 200
HANDLER_SECONDS = 0.01


def write(bootstrap, topic, count):
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(count):
        sequence, channel = divmod(number, CHANNELS)
        headers = [("sequence", b"%d" % sequence), ("incarnation", b"1")]
        producer.produce(topic, b"x", b"%d" % channel, partition=0, headers=headers)
    assert producer.flush(60) == 0


def seconds(bootstrap, topic, workers, count):
    """How long a reader of its own group handles all of it."""
    lock, begun, ended, seen = threading.Lock(), [], [], defaultdict(list)
    group = uuid.uuid4().hex

    def handle(delivery):
        begun.append(time.monotonic())
        time.sleep(HANDLER_SECONDS)
        with lock:
            seen[delivery.key].append(delivery.sequence)
            ended.append(time.monotonic())
            if len(ended) == count:
                parallel.stop()

    with OrderedConsumer({"bootstrap.servers": bootstrap}, [topic], group=group) as reader:
        parallel = reader.parallel(workers)
        parallel.run(handle)
    assert all(numbers == list(range(len(numbers))) for numbers in seen.values())
    assert len(ended) == count
    return max(ended) - min(begun)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", help="a broker; without it one is started")
    parser.add_argument("--count", type=int, default=1000, help="deliveries")
    parser.add_argument("--times", type=int, default=3, help="turns")
    given = parser.parse_args()
    with nullcontext() if given.bootstrap else EmbeddedBroker() as broker:
        bootstrap = given.bootstrap or broker.bootstrap
        topic = f"consumers-{uuid.uuid4().hex}"
        create(bootstrap, topic)
        write(bootstrap, topic, given.count)
        ratios = defaultdict(list)
        for _ in range(given.times):
            alone = seconds(bootstrap, topic, 1, given.count)
            for workers in (2, 4, 8, 16, 32):
                ratios[workers].append(alone / seconds(bootstrap, topic, workers, given.count))
        remove(bootstrap, topic)
    print("threads  times one thread")
    for workers, found in ratios.items():
        print(f"{workers:7} {statistics.median(found):7.1f} ({min(found):.1f} to {max(found):.1f})")


if __name__ == "__main__":
    main()
