"""The judge of discipline ``channel``: guarantees 1 and 5 of docs/guarantees.md.

Faults by name: `bad-output` (the service's headers are missing or no numbers), `wrong-partition`,
`hole` (in `sequence`), `repeat`, `rewritten` (one (key, incarnation, sequence) with two contents),
`disorder` (labels or epochs go back), `unannounced-gap`, `given-up-delivered`,
`after-fin-delivered`, `bad-delivered` (a record that had to be rejected), `invented` (no such
input, or altered), `reject-altered`, `reject-repeat`, `wrong-reason`, `lost`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sequencer.channels.rules import SKIPPED_RANGES_MAX
from sequencer.labels import Labels, parse_numbers
from streaming.columns import partitions_of
from streaming.verify.added import number, reject, tail, without
from streaming.verify.faults import Verdict
from streaming.verify.records import Record

STATIC = ("missing-channel", "missing-label", "bad-label", "bad-epoch")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the judge must know of the pipeline's configuration."""

    pipeline: str
    labels: Labels
    window: int
    channel_header: str | None = None  # None: the channel is the key
    label_header: str = "label"
    header_prefix: str = ""
    drop_duplicates: bool = False
    repeats_allowed: bool = False
    output_partitions: int = 1
    held_max: int = 10_000


@dataclass(slots=True)
class Material:
    """All records of the pipeline's topics, each topic by partition and offset."""

    inputs: list[Record]
    outputs: list[Record]
    rejects: list[Record]
    events: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a record says of itself; ``reason`` where it must be rejected for that alone."""

    channel: bytes | None
    position: int
    epoch: int
    fin: bool
    reason: str | None


@dataclass(slots=True)
class _Life:
    """One channel during one incarnation, as its deliveries show it."""

    incarnation: int
    sequence: int = -1
    epoch: int = -1
    expected: int = 0
    fin: int | None = None


@dataclass(slots=True)
class _Judge:
    settings: Settings
    material: Material
    verdict: Verdict
    lives: dict[bytes, _Life] = field(default_factory=dict)
    gaps: dict[tuple[str, int, int], list[tuple[int, int]]] = field(default_factory=dict)
    once: dict[tuple[bytes, int, int], Any] = field(default_factory=dict)


def judge(settings: Settings, material: Material) -> Verdict:
    """Look for every fault; linear in the number of records."""
    verdict = Verdict(settings.pipeline)
    verdict.looked_at = {
        "inputs": len(material.inputs),
        "deliveries": len(material.outputs),
        "rejects": len(material.rejects),
        "events": len(material.events),
    }
    work = _Judge(settings, material, verdict)
    readings = _read_all(material.inputs, settings)
    work.gaps = _announced(material.events, settings, len(material.inputs))
    delivered = _judge_outputs(work)
    rejected = _judge_rejects(work, readings)
    _judge_endings(work, readings, delivered, rejected)
    verdict.looked_at["channels"] = len(work.lives)
    return verdict


def _read_all(records: list[Record], settings: Settings) -> list[Reading]:
    """Readings of records, the numbers of all at once."""
    labels = [record.header(settings.label_header) for record in records]
    epochs = [record.header("epoch") for record in records]
    horizon = len(records) + 2 * settings.window + 1000 if settings.labels.searched else 0
    texts = pa.array([value or b"" for _, value in labels], pa.binary())
    positions = settings.labels.positions(texts, horizon).tolist()
    given = pa.array([(value or b"") if there else b"0" for there, value in epochs], pa.binary())
    numbers = parse_numbers(given).tolist()
    readings = []
    for record, (labelled, _), position, epoch in zip(
        records, labels, positions, numbers, strict=True
    ):
        channel = record.key
        if settings.channel_header is not None:
            _, value = record.header(settings.channel_header)
            channel = value
        reason = None
        if channel is None:
            reason = "missing-channel"
        elif not labelled:
            reason = "missing-label"
        elif position < 0:
            reason = "bad-label"
        elif epoch < 0:
            reason = "bad-epoch"
        readings.append(Reading(channel, position, epoch, record.header("fin")[0], reason))
    return readings


def _announced(
    events: list[dict[str, Any]], settings: Settings, count: int
) -> dict[tuple[str, int, int], list[tuple[int, int]]]:
    """Given-up labels: ranges of places for (channel's text, incarnation, epoch), each event once.

    Places of cyclic labels are those within the cycle.
    """
    ranges: dict[tuple[str, int, int], list[tuple[int, int]]] = defaultdict(list)
    seen: set[str] = set()
    for event in events:
        if event.get("event") != "gap" or event["id"] in seen:
            continue
        seen.add(event["id"])
        first = pa.array([str(event["from"]).encode()], pa.binary())
        place = int(settings.labels.positions(first, count + 2 * settings.window + 1000)[0])
        key = (event["channel"], event["incarnation"], event["epoch"])
        ranges[key].append((place, place + event["count"]))
    return ranges


def _judge_outputs(work: _Judge) -> Counter[Any]:
    """Order, sequences, gaps and partitions; how often each content was delivered."""
    settings, verdict, material = work.settings, work.verdict, work.material
    own = [without(record, 2) for record in material.outputs]
    readings = _read_all(own, settings)
    partitions = _partitions(readings, settings)
    delivered: Counter[Any] = Counter()
    for record, stripped, reading, partition in zip(
        material.outputs, own, readings, partitions, strict=True
    ):
        added = _added(record, settings, ("sequence", "incarnation"))
        if added is None:
            verdict.find("bad-output", f"{record} lacks sequence or incarnation as last headers")
            continue
        if reading.reason is not None or reading.channel is None:
            verdict.find("bad-delivered", f"{record} had to be rejected: {reading.reason}")
            continue
        if partition != record.partition:
            verdict.find("wrong-partition", f"{record} belongs into partition {partition}")
        if _once(work, record, reading.channel, added):
            delivered[stripped.content] += 1
            _follow(work, record, reading, added)
    return delivered


def _once(work: _Judge, record: Record, channel: bytes, added: tuple[int, int]) -> bool:
    """Whether this (channel, incarnation, sequence) comes for the first time."""
    sequence, incarnation = added
    name = (channel, incarnation, sequence)
    before = work.once.get(name)
    if before is None:
        work.once[name] = hash(record.content)
        return True
    if before != hash(record.content):
        work.verdict.find("rewritten", f"{record}: sequence {sequence} had another content before")
    elif not work.settings.repeats_allowed:
        work.verdict.find("repeat", f"{record}: sequence {sequence} was there before")
    return False


def _follow(work: _Judge, record: Record, reading: Reading, added: tuple[int, int]) -> None:
    """Hold a delivery against the ones before it in its channel."""
    verdict, labels = work.verdict, work.settings.labels
    sequence, incarnation = added
    channel = reading.channel or b""
    life = work.lives.get(channel)
    if life is None or incarnation > life.incarnation:
        life = work.lives[channel] = _Life(incarnation)
    elif incarnation < life.incarnation:
        verdict.find("disorder", f"{record}: incarnation {incarnation} after {life.incarnation}")
        return
    if sequence != life.sequence + 1:
        kind = "hole" if sequence > life.sequence else "disorder"
        verdict.find(kind, f"{record}: sequence {sequence} follows {life.sequence}")
    life.sequence = max(sequence, life.sequence)
    if reading.epoch < life.epoch:
        verdict.find("disorder", f"{record}: epoch {reading.epoch} follows {life.epoch}")
        return
    if reading.epoch > life.epoch:
        life.epoch, life.expected, life.fin = reading.epoch, 0, None
    ahead = reading.position - life.expected
    if labels.cycle is not None:
        ahead %= labels.cycle
        ahead -= labels.cycle if ahead > labels.cycle // 2 else 0
    if ahead < 0:
        verdict.find("disorder", f"{record}: label {labels.at(reading.position)} was passed before")
        return
    if life.fin is not None:
        verdict.find("after-fin-delivered", f"{record} comes after the FIN of its epoch")
    _check_gap(work, record, reading, life, ahead)
    life.expected += ahead + 1
    if reading.fin:
        life.fin = life.expected - 1


def _check_gap(work: _Judge, record: Record, reading: Reading, life: _Life, ahead: int) -> None:
    """Labels left out must be announced, and announced ones must not be delivered."""
    text = (reading.channel or b"").decode(errors="backslashreplace")
    ranges = work.gaps.get((text, life.incarnation, life.epoch), [])
    cycle = work.settings.labels.cycle
    first = life.expected if cycle is None else life.expected % cycle
    if ahead and (first, first + ahead) not in ranges:
        told = f"labels {work.settings.labels.at(first)} and on ({ahead}) before it are missing"
        if not _covered(first, first + ahead, ranges):
            work.verdict.find("unannounced-gap", f"{record}: {told}, and no event says so")
    if cycle is None and any(start <= reading.position < stop for start, stop in ranges):
        work.verdict.find("given-up-delivered", f"{record}: its label was announced as given up")


def _covered(first: int, stop: int, ranges: list[tuple[int, int]]) -> bool:
    for start, end in sorted(ranges):
        if start <= first < end:
            first = end
    return first >= stop


def _judge_rejects(work: _Judge, readings: list[Reading]) -> set[tuple[str, int, int]]:
    """Rejects untouched, once, with a reason that can be; the places of what was rejected."""
    verdict, inputs = work.verdict, work.material.inputs
    at = {record.place: index for index, record in enumerate(inputs)}
    peers = _Peers(inputs, readings)
    rejected: dict[tuple[str, int, int], Any] = {}
    for record in work.material.rejects:
        said = reject(record, work.settings.header_prefix)
        if said is None:
            verdict.find("bad-output", f"{record} lacks the reject headers")
            continue
        place = said.origin
        if place in rejected:
            if not work.settings.repeats_allowed or rejected[place] != record.content:
                verdict.find("reject-repeat", f"{record}: input {place} was rejected before")
            continue
        rejected[place] = record.content
        index = at.get(place)
        if index is None:
            verdict.find("invented", f"{record} names the input {place}, which is not there")
            continue
        if said.content != hash(inputs[index].content):
            verdict.find("reject-altered", f"{record} differs from its input {inputs[index]}")
        if not _possible(work, said.reason, readings[index], peers):
            verdict.find("wrong-reason", f"{record}: {said.reason} does not fit {inputs[index]}")
    return set(rejected)


class _Peers:
    """By channel and epoch: how often each label came, all, the lowest FIN; the highest epoch."""

    def __init__(self, inputs: list[Record], readings: list[Reading]) -> None:
        self.copies: Counter[tuple[bytes, int, int]] = Counter()
        self.count: Counter[tuple[bytes, int]] = Counter()
        self.fin: dict[tuple[bytes, int], int] = {}
        self.epoch: dict[bytes, int] = {}
        for _, reading in zip(inputs, readings, strict=True):
            if reading.reason is not None or reading.channel is None:
                continue
            self.copies[reading.channel, reading.epoch, reading.position] += 1
            self.count[reading.channel, reading.epoch] += 1
            self.epoch[reading.channel] = max(self.epoch.get(reading.channel, 0), reading.epoch)
            if reading.fin:
                name = (reading.channel, reading.epoch)
                self.fin[name] = min(self.fin.get(name, reading.position), reading.position)


def _possible(work: _Judge, reason: str, reading: Reading, peers: _Peers) -> bool:
    """Whether the reason can be the right one, as far as the topics show."""
    labels = work.settings.labels
    if reading.reason is not None or reason in STATIC:
        return reason == reading.reason or (
            reason == "bad-label" and labels.searched and reading.reason is None
        )
    channel, epoch = reading.channel or b"", reading.epoch
    cyclic = labels.cycle is not None
    fin = peers.fin.get((channel, epoch))
    possible: dict[str, Callable[[], bool]] = {
        "stale-epoch": lambda: peers.epoch[channel] > epoch,
        "after-fin": lambda: fin is not None and (cyclic or reading.position > fin),
        # The frontier is 0 or above.
        "outside-window": lambda: cyclic or reading.position > work.settings.window,
        "late": lambda: _given_up(work, reading),
        "duplicate": lambda: cyclic or peers.copies[channel, epoch, reading.position] > 1,
        "buffer-full": lambda: peers.count[channel, epoch] > work.settings.held_max,
    }
    return reason in possible and possible[reason]()


def _given_up(work: _Judge, reading: Reading) -> bool:
    text = (reading.channel or b"").decode(errors="backslashreplace")
    cycle = work.settings.labels.cycle
    for (channel, _, epoch), ranges in work.gaps.items() if cycle else _of(work, text, reading):
        if channel == text and epoch == reading.epoch:
            for first, stop in ranges:
                offset = reading.position - first
                if 0 <= (offset % cycle if cycle else offset) < stop - first:
                    return True
            if len(ranges) > SKIPPED_RANGES_MAX:  # the oldest are remembered as one
                lowest, beyond = min(ranges)[0], max(ranges)[1]
                if cycle or lowest <= reading.position < beyond:
                    return True
    return False


def _of(work: _Judge, text: str, reading: Reading) -> list[Any]:
    life = work.lives.get(reading.channel or b"")
    if life is None:
        return list(work.gaps.items())
    name = (text, life.incarnation, reading.epoch)
    if name in work.gaps:
        return [(name, work.gaps[name])]
    return [(key, each) for key, each in work.gaps.items() if key[0] == text]


def _judge_endings(
    work: _Judge,
    readings: list[Reading],
    delivered: Counter[Any],
    rejected: set[tuple[str, int, int]],
) -> None:
    """Each input ended in exactly one place: delivery, reject, dropped, or held."""
    verdict, settings = work.verdict, work.settings
    waiting = _left_over(work, readings, delivered, rejected)
    held = dropped = 0
    cyclic = settings.labels.cycle is not None
    copies = _Peers(work.material.inputs, readings).copies
    for channel, records in waiting.items():
        held_back = _may_be_held(work.lives.get(channel), records, settings.labels)
        for record, reading in records:
            again = copies[channel, reading.epoch, reading.position] > 1
            if reading.reason is None and held_back(reading) and not again:
                held += 1
            elif settings.drop_duplicates and reading.reason is None and (again or cyclic):
                dropped += 1  # cyclic: a label beyond the window counts as one of the past
            elif reading.reason is None and held_back(reading):
                held += 1
            else:
                verdict.find("lost", f"{record} was neither delivered, rejected nor held back")
    for content, count in delivered.items():
        if count > 0:
            key = content[0]
            verdict.find("invented", f"a delivery of key {key!r} has no such input: {content!r}")
    verdict.looked_at["held"] = held
    verdict.looked_at["dropped"] = dropped


def _left_over(
    work: _Judge,
    readings: list[Reading],
    delivered: Counter[Any],
    rejected: set[tuple[str, int, int]],
) -> dict[bytes, list[tuple[Record, Reading]]]:
    """By channel, inputs neither rejected nor delivered; takes those found off ``delivered``."""
    waiting: dict[bytes, list[tuple[Record, Reading]]] = defaultdict(list)
    for record, reading in zip(work.material.inputs, readings, strict=True):
        if record.place in rejected:
            continue
        if delivered[record.content] > 0:
            delivered[record.content] -= 1
        else:
            waiting[reading.channel or b""].append((record, reading))
    return waiting


def _may_be_held(
    life: _Life | None, records: list[tuple[Record, Reading]], labels: Labels
) -> Callable[[Reading], bool]:
    """Which of a channel's records may wait: of its epoch, with the next label missing."""
    cycle = labels.cycle
    # A higher epoch takes over at its arrival, also where its first label is missing.
    epochs = [reading.epoch for _, reading in records if reading.reason is None]
    epoch = max([life.epoch if life else 0, *epochs])
    expected = life.expected if life and life.epoch == epoch else 0
    following = expected if cycle is None else expected % cycle
    missing = following not in {r.position for _, r in records if r.epoch == epoch}

    def ahead(reading: Reading) -> bool:
        distance = reading.position - following
        return distance > 0 if cycle is None else 0 < distance % cycle <= cycle // 2

    return lambda reading: missing and reading.epoch == epoch and ahead(reading)


def _added(record: Record, settings: Settings, names: tuple[str, ...]) -> tuple[int, int] | None:
    values = tail(record, settings.header_prefix, names)
    sequence, incarnation = map(number, values or (None, None))
    return None if min(sequence, incarnation) < 0 else (sequence, incarnation)


def _partitions(readings: list[Reading], settings: Settings) -> list[int]:
    channels = pa.array([reading.channel or b"" for reading in readings], pa.binary())
    return [int(each) for each in partitions_of(channels, settings.output_partitions)]
