"""Judges what a job made of the benchmark's topic, from its output alone.

The input holds for every channel the labels 0, 1, 2, … without a hole, each once, so the output
has to have each of them once and in that order, and counts them in the header `sequence`.
"""

import time
from typing import NamedTuple

import numpy as np
from confluent_kafka import Consumer, TopicPartition

IDLE_SECONDS, LOOK_SECONDS = 60, 0.5


class Deliveries(NamedTuple):
    """What was read, one place a record, offsets rising within a partition."""

    channel: np.ndarray
    label: np.ndarray
    sequence: np.ndarray
    partition: np.ndarray
    offset: np.ndarray


def read(bootstrap, topic, partitions):
    """Everything that a reader with `read_committed` gets."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-check",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    rows, ended, moved = [], 0, time.monotonic()
    while ended < partitions:
        messages = consumer.consume(10_000, LOOK_SECONDS)  # it waits for so many, at the end, too
        moved = time.monotonic() if messages else moved
        assert time.monotonic() < moved + IDLE_SECONDS, f"nothing from {topic} for {IDLE_SECONDS} s"
        for message in messages:
            if message.error():
                ended += 1
                continue
            headers = dict(message.headers())
            label, sequence = int(headers["label"]), int(headers["sequence"])
            place = message.partition(), message.offset()
            rows.append((int(message.key()[1:]), label, sequence, *place))
    consumer.close()
    return Deliveries(*np.array(rows, np.int64).reshape(-1, 5).T)


def faults(found, channels, labels):
    """One witness of each kind of fault in the deliveries of so many channels and labels: texts."""
    whole = found.channel * labels + found.label
    strange = (found.label < 0) | (found.label >= labels) | (found.channel >= channels)
    yield from witness("nobody sent", found, np.flatnonzero(strange)[:1])
    name, first, times = np.unique(whole, return_index=True, return_counts=True)
    yield from witness("more than once", found, first[times > 1][:1])
    missing = np.setdiff1d(np.arange(channels * labels), name, assume_unique=True)
    for number in missing[:1]:
        channel, label = divmod(int(number), labels)
        yield f"lost: label {label} of channel {channel}, and {len(missing) - 1} more"
    by_channel = np.lexsort((found.offset, found.partition, found.channel))
    before, after = by_channel[:-1], by_channel[1:]
    same = found.channel[before] == found.channel[after]
    apart = same & (found.partition[before] != found.partition[after])
    yield from witness("in a second partition", found, after[apart][:1])
    back = same & (found.label[after] < found.label[before])
    yield from witness("after a higher label", found, after[back][:1])
    counted = found.sequence != found.label
    yield from witness("wrong sequence", found, np.flatnonzero(counted)[:1])


def witness(what, found, places):
    for place in places.tolist():
        yield (
            f"{what}: label {found.label[place]} of channel {found.channel[place]}, "
            f"at partition {found.partition[place]}, offset {found.offset[place]}"
        )
