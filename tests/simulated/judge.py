"""What must hold of the topics of a history, from the topics alone."""

from __future__ import annotations

from kafka.record.default_records import DefaultRecordBatch

from streaming.verify.records import Record


def committed(kafka):
    """The committed records of every topic, as kafka-python decodes them."""
    found = {}
    for (topic, number), log in sorted(kafka.logs.items()):
        there = found.setdefault(topic, [])
        for entry in log.committed():
            for each in DefaultRecordBatch(entry.data):
                headers = tuple((name, value) for name, value in each.headers)
                there.append(
                    Record(
                        topic, number, each.offset, each.timestamp, each.key, each.value, headers
                    )
                )
    return found


def faults_of(history):
    """What is wrong with a history that has ended, as sentences."""
    if history.service.ended is not None:
        faults = [f"the service ended: {history.service.ended!r}"]
    elif not history.finished:
        faults = ["stalled: what was sent is not read by the end"]
    else:
        faults = []
    return faults + history.pipeline.faults_of(committed(history.kafka), history.finished)


def channel_faults(records, finished):
    """Compare channels with a model that takes one record at a time."""
    wanted, duplicates = model(records["in"])
    streams = {}
    for record in records["out"]:
        streams.setdefault(record.key, []).append(record)
    faults = []
    for channel in sorted(set(wanted) | set(streams)):
        faults += differences(channel, wanted.get(channel, []), streams.get(channel, []), finished)
    rejected = [
        (int(each.header("reject-partition")[1]), int(each.header("reject-offset")[1]))
        for each in records["rejects"]
    ]
    if len(set(rejected)) < len(rejected) or not set(rejected) <= set(duplicates):
        faults.append(f"rejected are {sorted(rejected)}, duplicates are {sorted(duplicates)}")
    elif finished and len(rejected) < len(duplicates):
        faults.append(f"{len(rejected)} of {len(duplicates)} duplicates were rejected")
    return faults


def model(sent):
    """Each channel's values in the order in which they must come; the places of what is rejected."""
    first, duplicates = {}, []
    for record in sorted(sent, key=lambda each: each.place):
        labels = first.setdefault(record.key, {})
        label = int(record.header("label")[1])
        if label in labels:
            duplicates.append((record.partition, record.offset))
        else:
            labels[label] = record.value
    wanted = {}
    for channel, labels in first.items():
        label = 0
        while label in labels:
            wanted.setdefault(channel, []).append(labels[label])
            label += 1
    return wanted, duplicates


def differences(channel, wanted, records, finished):
    """The first difference between a channel's deliveries and what must come."""
    for number, record in enumerate(records):
        expected = wanted[number] if number < len(wanted) else "nothing"
        if record.value != expected:
            return [f"{channel}: delivery {number} is {record.value}, not {expected}"]
        if record.header("sequence")[1] != b"%d" % number:
            return [f"{channel}: delivery {number} has the sequence {record.header('sequence')}"]
    if finished and len(records) < len(wanted):
        return [f"{channel}: {len(records)} of {len(wanted)} were delivered"]
    return []
