"""A channel, a group, a subscriber or a peer: its newest records, arrivals beside deliveries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from streaming.arrow.key_text import escaped
from streaming.config import Config
from streaming.console.values import channel_of, cut, encoded_key, link
from streaming.console.views import looked, reject_of
from streaming.console.waits import waiting_one
from streaming.disciplines.channels.sql import header_name
from streaming.graph import lanes
from streaming.kafka import topics
from streaming.kafka.newest import Found, Search, search
from streaming.places import TopicPartition
from streaming.settings.values import SUBSCRIBER
from streaming.verify.copies import SENDER
from streaming.verify.notices import is_notice

LANE_ARRIVALS = 48
QUICK_SECONDS = 0.4
"""How long a page reads topics unless somebody asks it to look farther back."""
COPIES_MAX = 5_000
"""Copies of a group's messages that are looked at in each partition: one of each is shown."""
TOPICS_MAX = 20
"""Topics of a group's members that are looked at, where each has one."""

Signature = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """Where lanes are looked for: for how long, and in which partitions below an offset.

    ``below``: of a group, the version and number below which messages are wanted.
    """

    seconds: float = QUICK_SECONDS
    until: Mapping[TopicPartition, int] = field(default_factory=dict)
    below: tuple[int, int] | None = None


def _reach(scope: Scope, *searches: Search) -> dict[str, Any]:
    """Return what a page says of how far back it looked, and where its older records are."""
    older = {place: at for each in searches for place, at in each.older.items()}
    return {
        "looked": looked(*searches),
        "is_whole": all(each.is_whole for each in searches),
        "older": [f"{topic}/{partition}@{at}" for (topic, partition), at in sorted(older.items())],
        "is_older": bool(scope.until),
    }


def channel(config: Config, name: str, key: bytes, scope: Scope) -> dict[str, Any]:
    """Return what is known of a channel: whether it waits, its newest records, its lanes."""
    settings = config.pipelines[name]
    prefix = config.service.header_prefix

    def as_sent(record: Found) -> Found:
        return _without_added(record, prefix) if record.topic == settings.output else record

    def is_its(record: Found) -> bool:
        return channel_of(settings, as_sent(record)) == key

    names = (*settings.input, settings.output, settings.rejects)
    found = search(
        config, names, is_its, LANE_ARRIVALS, seconds_max=scope.seconds, until=scope.until
    )
    arrivals = [each for each in found.records if each.topic in settings.input]
    out = [
        each
        for each in found.records
        if each.topic == settings.output and not is_notice(each, prefix)
    ]
    reasons = {
        reject["rejected_place"]: reject["reason"]
        for each in found.records
        if each.topic == settings.rejects and (reject := reject_of(config, each))
    }
    name_of_label = header_name(settings.label)

    def label_of(record: Found) -> str:
        return as_sent(record).text(name_of_label) if name_of_label else ""

    def known_by(record: Found) -> str:  # without a label: the time and the value
        return label_of(record) or repr((record.timestamp, record.value))

    asked = {each.encode() for each in settings.input_commands}
    commands = {each.place_text for each in arrivals if each.header("op") in asked}
    arrived = [(each.place_text, known_by(each), each.text("epoch")) for each in arrivals]
    delivered = [(_origin(each, prefix), known_by(each), each.text("epoch")) for each in out]
    fates, rows = lanes.matched(
        arrived, delivered, reasons, commands=commands, drops=settings.drops(key)
    )
    above = [
        lanes.Arrival(
            each.place_text,
            cut(label_of(each)),
            cut(each.text("epoch")),
            0,
            became,
            reasons.get(each.place_text, ""),
            link(name, each.place_text),
        )
        for each, became in zip(arrivals, fates, strict=True)
    ]
    labels = [cut(label_of(each)) for each in out]
    return {
        "key": escaped(key),
        "code": encoded_key(key),
        "is_readable": settings.channel == "key" or header_name(settings.channel) is not None,
        "picture": _drawn(name, prefix, above, out, labels, rows, escaped(key)),
        "arrivals": list(zip(above, arrivals, strict=True)),
        "waited": {
            above[row].place: (
                above[last].label,
                (arrivals[last].timestamp - arrivals[row].timestamp) / 1000,
            )
            for row, last in lanes.waited_for(rows).items()
        },
        **waiting_one(config, name, key),
        **_reach(scope, found),
    }


def group(
    config: Config, name: str, asked: str, scope: Scope, members: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a group's newest messages: as they arrived, and in the order of all its members.

    ``members``: in whose topics to look, if each has one; the first TOPICS_MAX are enough.
    """
    settings = config.pipelines[name]
    prefix = config.service.header_prefix
    wanted = asked.encode()

    def is_its(record: Found) -> bool:
        return record.header("group") == wanted

    limits: dict[str, Any] = {"seconds_max": scope.seconds / 2, "until": scope.until}
    arrivals = search(config, settings.input, is_its, LANE_ARRIVALS, **limits)
    copies: dict[tuple[int, int], Found] = {}

    def is_another(record: Found) -> bool:
        number = _group_number(record, prefix)
        is_below = scope.below is None or number < scope.below
        return is_its(record) and is_below and number not in copies

    def take(records: Sequence[Found]) -> bool:
        for each in records:
            copies.setdefault(_group_number(each, prefix), each)
        return len(copies) >= LANE_ARRIVALS

    outputs = _outputs(config, name, members or settings.subscribers())
    found = search(config, outputs, is_another, COPIES_MAX, enough=take, **limits)
    take(found.records)
    out = [copies[number] for number in sorted(copies)][-LANE_ARRIVALS:]
    senders = [escaped(each.key or b"") for each in arrivals.records]
    numbers = [each.text(prefix + "group-sequence") for each in out]
    shown = _matched(config, name, (arrivals.records, senders), (out, numbers), asked)
    # Copies that are not shown may lie in partitions where none is: those are read again.
    found.records = [each for each in found.records if each in out]
    for place in set(found.looked).difference(each.home for each in out):
        found.looked[place] = (found.looked[place][1],) * 2
    below = _group_number(out[0], prefix) if out else scope.below
    return shown | _reach(scope, arrivals, found) | {"below": below}


def subscriber(config: Config, name: str, key: bytes, scope: Scope) -> dict[str, Any]:
    """Return what a subscriber, peer or labelled channel got last, beside its order of arrival."""
    settings = config.pipelines[name]
    prefix = config.service.header_prefix
    deliveries = search(
        config,
        _outputs(config, name, [key.decode(errors="replace")]),
        lambda record: channel_of(settings, record) == key,
        LANE_ARRIVALS,
        seconds_max=scope.seconds / 2,
        until=scope.until,
    )
    out = deliveries.records
    kind = settings.discipline
    wanted = {_signature_out(each, prefix, kind) for each in out if not is_notice(each, prefix)}
    arrivals = search(
        config,
        settings.input,
        lambda record: bool(wanted.intersection(_signatures_in(record))),
        LANE_ARRIVALS,
        seconds_max=scope.seconds / 2,
        until=scope.until,
        enough=_all_of(wanted),
    )
    shown = [_above(settings.discipline, each) for each in arrivals.records]
    numbers = [each.text(prefix + "sequence") for each in out]
    found = _matched(config, name, (arrivals.records, shown), (out, numbers), escaped(key))
    found |= waiting_one(config, name, key) | {"key": escaped(key)}
    return found | _reach(scope, deliveries, arrivals)


def _outputs(config: Config, name: str, readers: Sequence[str]) -> list[str]:
    """Return where deliveries are: one topic, or those that these subscribers have."""
    output = config.pipelines[name].output
    if SUBSCRIBER not in output:
        return [output]
    there = topics.existing(config)
    own = (output.replace(SUBSCRIBER, each) for each in readers)
    return [topic for topic in own if topic in there and config.is_output(name, topic)][:TOPICS_MAX]


def _above(discipline: str, record: Found) -> str:
    """Return what stands above a record that arrived."""
    if discipline == "group":
        return record.text("group")
    return f"@{record.offset}" if discipline == "label" else escaped(record.key or b"")


def _matched(
    config: Config,
    name: str,
    arrivals: tuple[Sequence[Found], Sequence[str]],
    out: tuple[Sequence[Found], Sequence[str]],
    title: str,
) -> dict[str, Any]:
    """Return the lanes of records with what stands beside their marks.

    Copies are matched by `origin`, or by sender, time and content.
    """
    prefix = config.service.header_prefix
    rows: dict[Signature, int] = {}
    for row, record in enumerate(arrivals[0]):
        for signature in _signatures_in(record):
            rows.setdefault(signature, row)
    kind = config.pipelines[name].discipline
    origins = [rows.get(_signature_out(each, prefix, kind)) for each in out[0]]
    delivered = set(origins)
    above = [
        lanes.Arrival(
            each.place_text,
            cut(text),
            "",
            0,
            "delivered" if row in delivered else "unknown",
            "",
            link(name, each.place_text),
        )
        for row, (each, text) in enumerate(zip(*arrivals, strict=True))
    ]
    picture = _drawn(name, prefix, above, out[0], out[1], origins, title)
    return {"picture": picture, "deliveries": list(zip(*out, strict=True))}


def _drawn(
    name: str,
    prefix: str,
    above: Sequence[lanes.Arrival],
    out: Sequence[Found],
    texts: Sequence[str],
    origins: Sequence[int | None],
    title: str,
) -> str:
    below = [
        lanes.Delivery(
            each.place_text,
            text,
            each.text(prefix + "sequence"),
            origin,
            link(name, each.place_text),
        )
        for each, text, origin in zip(out, texts, origins, strict=True)
    ]
    return lanes.draw(above, below, title)


def _without_added(delivery: Found, prefix: str) -> Found:
    """Return a channel's delivery without the headers that the service put behind its own."""
    headers = delivery.headers
    for name in ("origin", "incarnation", "sequence"):
        if headers and headers[-1][0] == prefix + name:
            headers = headers[:-1]
    return replace(delivery, headers=headers)


def _origin(record: Found, prefix: str) -> str:
    """Return the input that a delivery's last header names; another one is its input's own."""
    name = prefix + "origin"
    return record.text(name) if record.headers and record.headers[-1][0] == name else ""


def _signature_out(record: Found, prefix: str, discipline: str) -> Signature:
    """Return what a delivery says of the record that it was."""
    if origin := _origin(record, prefix):
        return (origin,)
    name = SENDER.get(discipline)
    sender = record.header(prefix + name) if name else record.key
    return (sender, record.header("group"), record.timestamp, record.value)


def _signatures_in(record: Found) -> list[Signature]:
    """Return what a delivery of this record may say of it."""
    return [
        (record.place_text,),
        (record.key, record.header("group"), record.timestamp, record.value),
    ]


def _all_of(wanted: Collection[Signature]) -> Callable[[Sequence[Found]], bool]:
    """Return whether records hold all that is looked for, as a function."""

    def is_there(records: Sequence[Found]) -> bool:
        seen = {signature for each in records for signature in _signatures_in(each)}
        return len(seen.intersection(wanted)) == len(wanted)

    return is_there


def _group_number(record: Found, prefix: str) -> tuple[int, int]:
    texts = (record.text(prefix + "group-version"), record.text(prefix + "group-sequence"))
    version, sequence = (int(each) if each.isdecimal() else -1 for each in texts)
    return version, sequence
