"""What must hold of the topics, by a model that takes one record at a time."""

from __future__ import annotations

from kafka.record.default_records import DefaultRecordBatch


def committed(kafka, topic):
    """The committed records of a topic, by partition, as kafka-python decodes them."""
    found = {}
    for (name, number), log in kafka.logs.items():
        if name == topic:
            found[number] = [
                record for entry in log.committed() for record in DefaultRecordBatch(entry.data)
            ]
    return found


def faults_of(history):
    """What is wrong with a history that has ended, as sentences."""
    faults = []
    if history.service.ended is not None:
        faults.append(f"the service ended: {history.service.ended!r}")
    elif not history.finished:
        faults.append("stalled: what was sent is not read by the end")
    streams = {}
    for records in committed(history.kafka, "out").values():
        for record in records:
            streams.setdefault(bytes(record.key), []).append(record)
    rejected = [
        int(dict(record.headers)["reject-offset"])
        for records in committed(history.kafka, "rejects").values()
        for record in records
    ]
    wanted, duplicates = model(history.sent)
    for channel in sorted(set(wanted) | set(streams)):
        faults += judge_channel(channel, wanted.get(channel, []), streams.get(channel, []))
    if history.finished and len(rejected) != len(duplicates):
        faults.append(f"{len(rejected)} rejects, {len(duplicates)} records are duplicates")
    return faults


def model(sent):
    """Each channel's values in the order in which they must come, and the records to reject."""
    first, duplicates = {}, []
    for record in sorted(sent, key=lambda each: each.place):
        labels = first.setdefault(record.channel, {})
        if record.label in labels:
            duplicates.append(record)
        else:
            labels[record.label] = record.value
    wanted = {}
    for channel, labels in first.items():
        label = 0
        while label in labels:
            wanted.setdefault(channel, []).append(labels[label])
            label += 1
    return wanted, duplicates


def judge_channel(channel, wanted, records):
    """Compare one channel's deliveries with what must come: the first difference."""
    for number, record in enumerate(records):
        headers = dict(record.headers)
        if number >= len(wanted) or bytes(record.value) != wanted[number]:
            expected = wanted[number] if number < len(wanted) else "nothing"
            return [f"{channel}: delivery {number} is {bytes(record.value)}, not {expected}"]
        if headers["sequence"] != str(number).encode():
            return [f"{channel}: delivery {number} has the sequence {headers['sequence']}"]
    if len(records) < len(wanted):
        return [f"{channel}: {len(records)} of {len(wanted)} were delivered"]
    return []
