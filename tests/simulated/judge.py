"""What must hold of the topics of a history, from the topics alone."""

from __future__ import annotations

import json
from functools import partial

from kafka.record.default_records import DefaultRecordBatch

from streaming.verify.accounts import REFUSALS
from streaming.verify.records import Record
from tests.simulated.accounts import miscounts
from tests.simulated.lost import as_one_life
from tests.simulated.marking import PROGRESS, mark_faults
from tests.simulated.unread import unread_faults

DAY_MS = 86_400_000
"""A timer that is due within it may be one of a clock that went back."""


def committed(kafka, read=None, anew=(), is_lost=None):
    """The committed records of every topic, as kafka-python decodes them.

    ``read``: where some were lost, what was read of each partition; else all of it counts.
    ``anew``: topics that were read only after they were made again; else what was there before counts.
    ``is_lost(place, entry)``: which batches are left out.
    """
    found = {topic: [] for topic, _ in kafka.logs}
    for (topic, number), now in sorted(kafka.logs.items()):
        log = now if topic in anew else kafka.former.get((topic, number), now)
        there = {}
        spans = None if read is None else read.get((topic, number))
        for entry in log.committed(lost=True):
            if is_lost is not None and is_lost((topic, number), entry):
                continue
            for each in DefaultRecordBatch(entry.data):
                if spans is not None and not _is_read(each.offset, entry, spans):
                    continue
                headers = tuple((name, value) for name, value in each.headers)
                there.setdefault(
                    each.offset,
                    Record(
                        topic, number, each.offset, each.timestamp, each.key, each.value, headers
                    ),
                )
        found[topic] += [record for _, record in sorted(there.items())]
    return found


def _is_read(offset, entry, spans):
    """Whether somebody read an offset when a leader had written this there, and none had lost it.

    An epoch of -1 is of a plan that does not know it.
    """
    return any(
        first <= offset < stop and (epoch < 0 or entry.epoch <= epoch) and epoch < entry.cut_epoch
        for first, stop, epoch in spans
    )


def faults_of(history):
    """What is wrong with a history that has ended, as sentences."""
    ended = history.service.ended
    faults = [f"an error of the program: {each}" for each in history.service.surprises[:1]]
    if ended is not None:
        if type(ended).__name__ not in history.may_end:
            faults.append(f"the service ended: {ended!r}")
    elif not history.finished and "stalled" not in history.may_end:
        faults.append("stalled: what was sent is not read by the end")
    if history.must_end and history.finished:
        faults.append(f"it went on, without {history.must_end}")
    if history.copies > 1:
        faults.append("two copies of the service work to the end")
    if ended is not None and "InputChanged" in history.may_end:
        return faults  # what was compacted away since may be delivered
    read = history.read() if "InputLost" in history.may_end else None
    records = committed(history.kafka, read, history.read_anew())
    if history.repeats:
        faults += repeated(history, committed(history.kafka))
        return faults + (as_never_lost(history) if history.written else [])
    if history.pipeline.ends and history.finished and not history.storage.waits(DAY_MS):
        left = len(records["in"]) - len(records["out"]) - len(records["rejects"])
        faults += [f"{left} messages are neither delivered nor rejected"] if left else []
    if "InputLost" not in history.may_end and not history.other:
        faults += unfounded(history, records) + unrejected(history, records)
    if history.uses and history.finished and read is None:
        is_exact = history.pipeline.plan.delivery == "exactly-once"
        faults += miscounts(history, records) if is_exact and ended is None else []
    if PROGRESS in records and read is None:
        faults += mark_faults(history, records)
    faults += unread_faults(history, records) if history.discipline == "asking" else []
    faults += history.other.faults_of(history, records) if history.other else []
    return faults + history.pipeline.faults_of(records, history.finished)


def unfounded(history, records):
    """What counts as refused though Kafka refused no such record of an output.

    Notices of commands in inputs apart: they have not the command's value.
    """
    values = {each.place: each.value for each in records["in"] if not each.has_header("op")}
    refused = {value for at, _, value in history.kafka.refused if at in history.pipeline.outputs}
    said = refused_places(records["rejects"], history.pipeline.plan.headers)
    said += [
        (event["topic"], event["partition"], event["offset"])
        for event in (json.loads(each.value) for each in records["events"])
        if event["event"] == "undelivered" and event["reason"] in REFUSALS
    ]
    found = sorted(place for place in said if place in values and values[place] not in refused)
    return [f"Kafka did not refuse {found}"] if found else []


def unrejected(history, records):
    """What Kafka refused for all who should get it, without a reject, though no topic changed.

    Not by size: with other numbers, in a later run, a copy may compress to a byte more. Nor at least
    once, where later runs find more (docs/guarantees.md).
    """
    is_repeating = history.pipeline.plan.delivery == "at-least-once"
    is_changed = any(" take" in text for _, (text, _) in history.faults)
    if not history.finished or is_repeating or is_changed:
        return []
    values = {each.place: each.value for each in records["in"] if not each.has_header("op")}
    got = {each.value for name in records if name.startswith("out") for each in records[name]}
    reasons = {}
    for event in (json.loads(each.value) for each in records["events"]):
        if event["event"] == "undelivered":
            place = event["topic"], event["partition"], event["offset"]
            reasons.setdefault(place, set()).add(event["reason"])
    refused = {place for place, some in reasons.items() if some == {"refused"}}
    rejected = {*refused_places(records["rejects"], history.pipeline.plan.headers)}
    found = sorted(at for at in refused - rejected if at in values and values[at] not in got)
    return [f"nobody gets {found}, and there is no reject"] if found else []


def refused_places(rejects, headers=str):
    """The places of what was rejected as the output does not take it; ``headers``: their names."""
    found = []
    for each in rejects:
        reason, topic, *numbers = (
            each.header(headers(f"reject-{name}"))
            for name in ("reason", "topic", "partition", "offset")
        )
        if reason.decode() in REFUSALS:
            found.append((topic.decode(), *map(int, numbers)))
    return found


def repeated(history, records):
    """Where repeats were accepted: each name is one delivery's, and of channels none is left out."""
    faults, streams, headers = [], {}, history.pipeline.plan.headers
    for record in records["out"]:
        numbers = [int(record.header(headers(name))) for name in ("incarnation", "sequence")]
        streams.setdefault((record.key, numbers[0]), []).append(numbers[1])
    for name, numbers in streams.items():
        if numbers != [*range(len(numbers))]:
            faults.append(f"{name} has the sequences {numbers}")
    if history.finished and history.discipline == "channel" and not history.may_end & {"InputLost"}:
        wanted, _ = model(records["in"], refused_places(records["rejects"]))
        got = {(record.key, record.value) for record in records["out"]}
        missing = {(key, value) for key, values in wanted.items() for value in values} - got
        faults += [f"{sorted(missing)} were not delivered"] if missing else []
    return faults


def as_never_lost(history):
    """What is wrong with what is left without the batches that were lost and repeated."""
    if not history.finished or history.may_end & {"InputLost"}:
        return []
    is_lost = partial(history.written.is_lost, gone=history.written.lost())
    records = committed(history.kafka, is_lost=is_lost)
    faults = miscounts(history, records)
    if history.discipline == "channel":
        records["out"] = as_one_life(records["out"])
    return faults + history.pipeline.faults_of(records, history.finished)


def channel_faults(records, finished):
    """Compare channels with a model that takes one record at a time."""
    refused = refused_places(records["rejects"])
    wanted, duplicates = model(records["in"], refused)
    streams = {}
    for record in records["out"]:
        streams.setdefault(record.key, []).append(record)
    faults = []
    for channel in sorted(set(wanted) | set(streams)):
        faults += differences(channel, wanted.get(channel, []), streams.get(channel, []), finished)
    rejected = [
        (int(each.header("reject-partition")), int(each.header("reject-offset")))
        for each in records["rejects"]
    ]
    if len(set(rejected)) < len(rejected) or not set(rejected) <= set(duplicates):
        faults.append(f"rejected are {sorted(rejected)}, duplicates are {sorted(duplicates)}")
    elif finished and len(rejected) < len(duplicates):
        faults.append(f"{len(rejected)} of {len(duplicates)} duplicates were rejected")
    return faults


def model(sent, refused=()):
    """Each channel's values in the order in which they must come; the places of what is rejected.

    Labels of what was ``refused`` are given up.
    """
    first, duplicates = {}, []
    for record in sorted(sent, key=lambda each: each.place):
        labels = first.setdefault(record.key, {})
        label = int(record.header("label"))
        is_refused = record.place in refused
        if is_refused or label in labels:
            duplicates.append((record.partition, record.offset))
        if label not in labels:
            labels[label] = None if is_refused else record.value
    wanted = {}
    for channel, labels in first.items():
        label = 0
        while label in labels:
            wanted.setdefault(channel, []).append(labels[label])
            label += 1
    wanted = {
        channel: [each for each in values if each is not None] for channel, values in wanted.items()
    }
    return wanted, duplicates


def differences(channel, wanted, records, finished):
    """The first difference between a channel's deliveries and what must come."""
    for number, record in enumerate(records):
        expected = wanted[number] if number < len(wanted) else "nothing"
        if record.value != expected:
            return [f"{channel}: delivery {number} is {record.value}, not {expected}"]
        if record.header("sequence") != b"%d" % number:
            return [f"{channel}: delivery {number} has the sequence {record.header('sequence')}"]
    if finished and len(records) < len(wanted):
        return [f"{channel}: {len(records)} of {len(wanted)} were delivered"]
    return []
