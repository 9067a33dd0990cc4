"""Channels in plain Python: dictionaries in memory, nothing durable, what a crash takes is lost.

Two processes, each with half of the partitions, until the end of what is there.

    python bench/peers/dictionaries.py BOOTSTRAP TOPIC OUTPUT
"""

import multiprocessing
import sys

from confluent_kafka import Consumer, Producer, TopicPartition

PROCESSES = 2
PARTITIONS = 4
READ_AT_ONCE = 10_000
READING = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "fetch.min.bytes": 64 * 1024,
    "fetch.wait.max.ms": 50,
    "queued.min.messages": 100_000,
    "check.crcs": False,
}
WRITING = {
    "linger.ms": 20,
    "compression.type": "lz4",
    "batch.size": 256 * 1024,
    "batch.num.messages": 10_000,
    "queue.buffering.max.messages": 1_000_000,
    "partitioner": "murmur2_random",
}


def main():
    words = sys.argv[1:4]
    workers = [
        multiprocessing.Process(target=work, args=(*words, number)) for number in range(PROCESSES)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sys.exit(any(worker.exitcode for worker in workers))


def work(bootstrap, topic, output, number):
    """Bring the channels of every second partition into order."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": output, **READING})
    producer = Producer({"bootstrap.servers": bootstrap, **WRITING})
    mine = range(number, PARTITIONS, PROCESSES)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in mine])
    following, held, left = {}, {}, len(mine)  # next label by channel; message by channel and label
    while left:
        for message in consumer.consume(READ_AT_ONCE, 1.0):
            if message.error():
                left -= 1
                continue
            key, label = message.key(), int(dict(message.headers())["label"])
            wanted = following.get(key, 0)
            if label > wanted:
                held.setdefault((key, label), message)
            while label == wanted:
                write(producer, output, message, label)
                wanted += 1
                message = held.pop((key, wanted), None)  # noqa: PLW2901  (what waited for it)
                label = label if message is None else wanted
            following[key] = wanted
    producer.flush(120)
    consumer.close()


def write(producer, output, message, label):
    headers = [*message.headers(), ("sequence", b"%d" % label)]
    _, timestamp = message.timestamp()
    while True:
        try:
            producer.produce(
                output, message.value(), message.key(), headers=headers, timestamp=timestamp
            )
            break
        except BufferError:
            producer.poll(0.1)


if __name__ == "__main__":
    main()
