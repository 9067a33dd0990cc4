"""What records of a channel pipeline say of themselves, before anything is judged."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

import pyarrow as pa

from sequencer.labels import LABEL_MAX, Labels, parse_numbers
from streaming.arrow.key_text import key_from_json
from streaming.settings.fields import ValueField
from streaming.verify.added import reject
from streaming.verify.faults import Verdict
from streaming.verify.inputs import Ends
from streaming.verify.records import Record
from streaming.verify.values import Registered, said_of, schema_of

NOT_KNOWN = re.compile(rb"the registry does not know schema |schema [0-9]+ cannot be used: ")
"""How the detail of a reject begins that rests on this."""


@dataclass(frozen=True, slots=True)
class GapTime:
    """How long gaps are waited for (ms); None: for ever. Between two times where it sets itself."""

    least_ms: int | None
    most_ms: int | None


@dataclass(frozen=True, slots=True)
class ChannelRule:
    """Bounds of the channels whose text matches a glob; ``gap`` None: it is not judged."""

    glob: str
    window: int
    held_max: int
    drop_duplicates: bool
    gap: GapTime | None = None


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    """What the judge must know of the pipeline's configuration.

    Where there is a field, it counts in place of the header. ``gives_labels``: discipline `label`;
    what records say of labels does not count.
    """

    pipeline: str
    labels: Labels
    window: int
    channel_header: str | None = None  # None: the channel is the key
    label_header: str | None = "label"
    channel_field: ValueField | None = None
    label_field: ValueField | None = None
    registered: Registered = field(default_factory=Registered)
    header_prefix: str = ""
    drop_duplicates: bool = False
    repeats_allowed: bool = False
    output_partitions: int = 1
    held_max: int = 10_000
    input_commands: Collection[str] = ()
    pass_unlabelled: bool = False
    gives_labels: bool = False
    first_seen: bool = False
    rules: tuple[ChannelRule, ...] = ()
    gap: GapTime | None = None
    records: int = 0  # of all inputs, where those of some channels are judged

    def horizon(self, records: int) -> int:
        """How far custom labels are searched, for this many records."""
        return max(records, self.records) + 2 * self.widest + 1000

    @property
    def added(self) -> tuple[str, ...]:
        """The headers that a delivery has besides, without their prefix."""
        own = ("label", "epoch") if self.gives_labels else ()
        return (*own, "sequence", "incarnation")

    @property
    def widest(self) -> int:
        """The widest window of any channel."""
        return max([self.window, *(rule.window for rule in self.rules)])

    def of(self, channel: bytes) -> ChannelRule:
        """The bounds of a channel: those of the first rule whose glob its text matches."""
        drops = self.drop_duplicates
        own = ChannelRule("*", self.window, self.held_max, drop_duplicates=drops, gap=self.gap)
        try:
            text = channel.decode()
        except UnicodeDecodeError:
            return own
        found = (rule for rule in self.rules if fnmatchcase(text, rule.glob))
        return next(found, own)


@dataclass(slots=True)
class Material:
    """All records of the pipeline's topics, each topic by partition and offset."""

    inputs: list[Record]
    outputs: list[Record]
    rejects: list[Record]
    events: list[dict[str, Any]]
    commands: list[Record] = field(default_factory=list)
    wanted: list[Record] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a record says of itself; ``reason`` where it must be rejected for that alone.

    ``passes``: it has no label and need not have one; ``position`` and ``epoch`` mean nothing then.
    """

    channel: bytes | None
    position: int
    epoch: int
    fin: bool
    reason: str | None
    passes: bool = False


@dataclass(slots=True)
class ChannelLife:
    """One channel during one incarnation, as its deliveries show it; ``ended`` by a reset.

    ``begins``: the next delivery may have waited although no label is missing before it: others had
    to show that its label is the first, or a gap had to end. ``labelled``: its deliveries that have
    a label.
    """

    incarnation: int
    sequence: int = -1
    epoch: int = -1
    expected: int = 0
    fin: int | None = None
    ended: bool = False
    begins: bool = False
    labelled: int = 0


@dataclass(slots=True)
class CommandedChannels:
    """Which channels commands were about (None: any), of those that acted.

    ``not_coming``: by channel and epoch, `from` and `to` of labels that will not come.
    """

    passed: set[bytes | None] = field(default_factory=set)
    reset: set[bytes | None] = field(default_factory=set)
    not_coming: dict[tuple[bytes, int], list[Mapping[str, Any]]] = field(default_factory=dict)

    def may_have_passed(self, channel: bytes) -> bool:
        """Return whether a command gave up labels of the channel, or may have."""
        return bool(self.passed & {channel, None})

    def may_have_reset(self, channel: bytes) -> bool:
        """Return whether a command made the service forget the channel, or may have."""
        return bool(self.reset & {channel, None})


Name = tuple[bytes, int, int]
"""What names a delivery: channel, incarnation, sequence."""


@dataclass(slots=True)
class Judging:
    """What the judge collects: channels' lives, announced gaps, contents by sequence.

    ``given_up``: the gaps of each channel and epoch, life by life. ``asked``: what commands
    explain. ``retired``: channels and incarnations that ended. ``refused``: labels (channel, epoch,
    position, reason) that were given up as the output refused the record. ``contents``: hashes of
    the inputs that deliveries are of. ``adjacent``: deliveries before which no label is missing.
    ``first_lives``: each channel's first incarnation. ``starts``: see :func:`starts_in`.
    ``passed``: where the gap of a channel ends that begins at (incarnation, epoch, position).
    ``due``: how far inputs must be worked through by now.
    """

    settings: ChannelSettings
    material: Material
    verdict: Verdict
    due: Ends = None
    lives: dict[bytes, ChannelLife] = field(default_factory=dict)
    gaps: dict[tuple[bytes, int, int], list[tuple[int, int]]] = field(default_factory=dict)
    given_up: dict[tuple[bytes, int], list[list[tuple[int, int]]]] = field(default_factory=dict)
    asked: CommandedChannels = field(default_factory=CommandedChannels)
    retired: set[tuple[bytes, int]] = field(default_factory=set)
    refused: Counter[tuple[bytes, int, int, str]] = field(default_factory=Counter)
    once: dict[Name, Any] = field(default_factory=dict)
    contents: dict[Name, int] = field(default_factory=dict)
    adjacent: set[Name] = field(default_factory=set)
    first_lives: dict[bytes, int] = field(default_factory=dict)
    passed: dict[bytes, dict[tuple[int, int, int], int]] = field(default_factory=dict)
    starts: dict[tuple[bytes, int], dict[int, int]] = field(default_factory=dict)

    def lasting(self) -> set[bytes]:
        """Return the channels whose last life has not ended, of those with a delivery."""
        return {
            channel
            for channel, life in self.lives.items()
            if not life.ended and (channel, life.incarnation) not in self.retired
        }

    def start(self, channel: bytes, epoch: int, incarnation: int) -> int | None:
        """The first position of an epoch; None where no event names it."""
        if not self.settings.first_seen:
            return 0
        return self.starts.get((channel, epoch), {}).get(incarnation)

    def reached(self, channel: bytes, life: ChannelLife) -> int:
        """The position that is next, behind all gaps that follow the last delivery."""
        stops, at = self.passed.get(channel, {}), life.expected
        while (stop := stops.get((life.incarnation, life.epoch, at), at)) > at:
            at = stop
        return at

    def may_begin_again(self, channel: bytes, life: ChannelLife) -> bool:
        """Return whether the channel was forgotten after this life."""
        return (channel, life.incarnation) in self.retired or self.asked.may_have_reset(channel)

    def begins_behind(self, reading: Reading) -> bool:
        """Return whether the epoch began behind a label, in any life of its channel."""
        starts = self.starts.get((reading.channel or b"", reading.epoch), {})
        return any(reading.position < start for start in starts.values())


def read_all(records: list[Record], settings: ChannelSettings) -> list[Reading]:
    """Readings of records, the numbers of all at once."""
    label_at = (settings.label_header, settings.label_field, settings.registered)
    channel_at = (settings.channel_header, settings.channel_field, settings.registered)
    labels = [said_of(record, *label_at) for record in records]
    horizon = settings.horizon(len(records)) if settings.labels.searched else 0
    texts = pa.array([value or b"" for _, value in labels], pa.binary())
    positions = settings.labels.positions(texts, horizon).tolist()
    epochs = [(r.header("epoch") or b"") if r.has_header("epoch") else b"0" for r in records]
    numbers = parse_numbers(pa.array(epochs, pa.binary())).tolist()
    none_behind = LABEL_MAX if settings.first_seen else None
    readings = []
    for record, (labelled, _), position, epoch in zip(
        records, labels, positions, numbers, strict=True
    ):
        _, channel = said_of(record, *channel_at)
        reason = None
        passes = settings.pass_unlabelled and channel is not None
        passes &= settings.gives_labels or not labelled
        if channel is None:
            reason = "missing-channel"
        elif not labelled and not passes:
            reason = "missing-label"
        elif (position < 0 or position == none_behind) and not passes:
            reason = "bad-label"
        elif epoch < 0 and not passes:
            reason = "bad-epoch"
        fin = record.has_header("fin") and not passes
        readings.append(Reading(channel, position, epoch, fin, reason, passes))
    return readings


def starts_in(
    events: list[dict[str, Any]], settings: ChannelSettings
) -> dict[tuple[bytes, int], dict[int, int]]:
    """By channel and epoch, the first position in each incarnation, as events `started` say."""
    starts: dict[tuple[bytes, int], dict[int, int]] = defaultdict(dict)
    for event in events:
        if event.get("event") == "started":
            name = (key_from_json(event["channel"]), event["epoch"])
            starts[name][event["incarnation"]] = settings.labels.position(event["label"])
    return starts


def announced(
    events: list[dict[str, Any]], settings: ChannelSettings, count: int
) -> dict[tuple[bytes, int, int, str], list[tuple[int, int]]]:
    """Given-up labels: ranges of positions for (channel, incarnation, epoch, reason), each once.

    Positions of cyclic labels go on over all turns of the cycle, as those in the ids of events.
    """
    ranges: dict[tuple[bytes, int, int, str], list[tuple[int, int]]] = defaultdict(list)
    seen: set[str] = set()
    for event in events:
        if event.get("event") != "gap" or event["id"] in seen:
            continue
        seen.add(event["id"])
        first = pa.array([str(event["from"]).encode()], pa.binary())
        place = int(settings.labels.positions(first, settings.horizon(count))[0])
        if settings.labels.cycle is not None:
            place = _over_turns(event["id"], place, settings.labels.cycle)
        where = (key_from_json(event["channel"]), event["incarnation"], event["epoch"])
        ranges[*where, event["reason"]].append((place, place + event["count"]))
    return ranges


def _over_turns(name: str, place: int, cycle: int) -> int:
    """The position at the end of a gap's id; the label's own where that is another label's."""
    said = name.rpartition(":")[2]
    position = int(said) if said.isdecimal() else -1
    return position if position >= 0 and position % cycle == place else place


def covered(first: int, stop: int, ranges: list[tuple[int, int]]) -> bool:
    """Return whether all positions from one up to another lie in some of these ranges."""
    for start, end in sorted(ranges):
        if start <= first < end:
            first = end
    return first >= stop


def with_unknown_schemas(
    readings: list[Reading], material: Material, settings: ChannelSettings
) -> list[Reading]:
    """Return readings of inputs, those as they were then whose schema could not be had or used.

    A reject says so; what the registry has now, it may have got since.
    """
    said = [reject(record, settings.header_prefix) for record in material.rejects]
    unknown = {each.origin for each in said if each and NOT_KNOWN.match(each.detail)}
    found = []
    for record, reading in zip(material.inputs, readings, strict=True):
        if record.place in unknown and (number := schema_of(record.value)) is not None:
            as_then = replace(settings, registered=Registered(None, {number: None}))
            found += read_all([record], as_then)
        else:
            found.append(reading)
    return found
