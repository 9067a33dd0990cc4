"""The life of one record, from topics alone: where it went, what it waited for, who gave up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from streaming.arrow.json_object import object_in
from streaming.arrow.key_text import key_to_json
from streaming.config import Config
from streaming.disciplines.channels.sql import header_name
from streaming.errors import ConfigError
from streaming.places import Place
from streaming.settings.fields import JSON, ValueField
from streaming.settings.values import SUBSCRIBER
from streaming.verify import copies
from streaming.verify.added import MORE_HEADERS, reject
from streaming.verify.channel_notices import WORDS
from streaming.verify.commands import place_in
from streaming.verify.notices import is_notice, read_notice
from streaming.verify.origins import content_of, origin_of, text_of
from streaming.verify.records import Record
from streaming.verify.seeking import Seeker, Span
from streaming.verify.values import in_json

BEFORE_MAX = 20_000
"""Offsets before a delivery in which those before it in its channel are looked for."""
NUMBERS = ("sequence", "incarnation", "group-version", "group-sequence", "timestamp", "destination")


@dataclass(slots=True)
class Life:
    """What became of an input record in one pipeline.

    ``state``: "delivered", "rejected", "undelivered", "command", "held", "held or dropped" (as a
    duplicate), "waiting" (not read yet), "unknown".
    """

    pipeline: str
    discipline: str
    state: str = "unknown"
    deliveries: list[dict[str, Any]] = field(default_factory=list)
    reject: dict[str, Any] | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    waited: dict[str, Any] | None = None


class Lives:
    """Looks for records of a configuration's topics."""

    def __init__(self, config: Config, seeker: Seeker) -> None:
        self.config = config
        self.seeker = seeker
        self.prefix = config.service.header_prefix

    def of(self, place: Place) -> dict[str, Any]:
        """Return the life of the record at a place, as JSON has it; ConfigError for no record."""
        record = self.seeker.one(place)
        if record is None:
            raise ConfigError(
                f"There is no record at {text_of(place)}.",
                "Nothing was looked for.",
                "Look at topic, partition and offset; Kafka may have deleted it since.",
            )
        source, via = self._input_of(record)
        both = [source, record] if via != "itself" else [source]  # others may read an output, too
        lives = [self._life(each, *by) for each in both if each for by in self._reads(each)]
        spans = [each for span in self.seeker.spans if (each := span.to_json())]
        return {
            "record": shown(record),
            "input": None if source is None else shown(source),
            "found_by": via,
            "pipelines": [_as_json(each) for each in lives],
            "looked_at": spans,
        }

    # --- Back to the input.

    def _input_of(self, record: Record) -> tuple[Record | None, str]:
        """The input that a record is, and how that was found."""
        is_read = any(record.topic in each.input for each in self.config.pipelines.values())
        for name, pipeline in self.config.pipelines.items():
            if record.topic == pipeline.rejects and (found := reject(record, self.prefix)):
                return self.seeker.one(found.origin), "reject headers"
            if self.config.is_output(name, record.topic):
                if is_notice(record, self.prefix):
                    return self._command_of(record, pipeline), "notice"
                found_by_header = origin_of(record, self.prefix)
                if found_by_header is not None:
                    return self.seeker.one(found_by_header), "origin"
                source = self._input_by_content(record, name)
                if source is not None or not is_read or record.topic in pipeline.outputs():
                    return source, "content"
        if is_read:
            return record, "itself"
        raise ConfigError(
            f"{record.topic} is not an input, output or rejects topic of {self.config.source}.",
            "Nothing was looked for.",
            "Name a record of one of these.",
        )

    def _command_of(self, notice: Record, pipeline: Any) -> Record | None:
        """The input record whose command a notice reports; None where it reports another event."""
        detail = object_in(notice.header(self.prefix + "detail")) or {}
        place = place_in(detail)
        return None if place is None or place[0] not in pipeline.input else self.seeker.one(place)

    def _input_by_content(self, record: Record, name: str) -> Record | None:
        pipeline = self.config.pipelines[name]
        named = copies.NAMING[pipeline.discipline](record, self.prefix)
        if named is None:
            return None
        content = content_of(record, len(record.headers) - named[0])
        for topic in pipeline.input:
            for span in self.seeker.behind(topic, record.timestamp):
                for each in self.seeker.newest_first(span):
                    is_equal = content_of(each, len(each.headers)) == content
                    if is_equal and copies.is_of(record, each, pipeline.discipline, self.prefix):
                        return each
        return None

    # --- Forward from the input.

    def _reads(self, record: Record) -> list[tuple[str, Any]]:
        pipelines = self.config.pipelines.items()
        return [(name, each) for name, each in pipelines if record.topic in each.input]

    def _life(self, record: Record, name: str, pipeline: Any) -> Life:
        life = Life(name, pipeline.discipline)
        if pipeline.origin:  # deliveries name their inputs: one that has some has no reject
            self._find_deliveries(record, life, pipeline)
        if not life.deliveries:
            self._find_reject(record, life, pipeline)
        if not pipeline.origin and life.reject is None:  # these only look like their input
            self._find_deliveries(record, life, pipeline)
        self._find_events(record, life, pipeline)
        if life.deliveries:
            life.state = "delivered"
        elif life.reject is not None:
            life.state = "rejected"
        elif any(event.get("event") == "undelivered" for event in life.events):
            life.state = "undelivered"
        else:
            life.state = self._by_marks(record, pipeline)
            if life.state != "waiting" and _is_command(record, pipeline):
                life.state = "command"
        has_waited = life.state not in ("rejected", "command", "waiting")
        if pipeline.discipline == "channel" and has_waited:
            life.waited = self._waited(record, life, pipeline)
        return life

    def _find_deliveries(self, record: Record, life: Life, pipeline: Any) -> None:
        is_channel = pipeline.discipline == "channel"
        key = self._channel(record, pipeline)
        for topic in self._outputs(life, pipeline):
            spans = copies.home_first(self.seeker.behind(topic, record.timestamp), key)
            for span in spans:
                for each in copies.found(self.seeker, span, record, pipeline, self.prefix):
                    reader = (each.key or b"").decode(errors="replace")
                    if topic != pipeline.output.replace(SUBSCRIBER, reader):
                        continue  # not a subscriber's topic
                    life.deliveries.append(self._shown_delivery(each, pipeline))
                    if is_channel:
                        return

    def _outputs(self, life: Life, pipeline: Any) -> list[str]:
        if SUBSCRIBER not in pipeline.output:
            return [pipeline.output]
        is_output, name = self.config.is_output, life.pipeline
        return sorted(each for each in self.seeker.topic_names() if is_output(name, each))

    def _shown_delivery(self, record: Record, pipeline: Any) -> dict[str, Any]:
        """A delivery with its numbers, and with the label that a header gave it."""
        found = {name: record.header(self.prefix + name) for name in NUMBERS}
        label = getattr(pipeline, "label", None)
        name = header_name(label) if isinstance(label, str) else None
        found |= {"label": copies.as_sent(record, self.prefix).header(name) if name else None}
        texts = {name: value.decode(errors="replace") for name, value in found.items() if value}
        return shown(record) | texts

    def _find_reject(self, record: Record, life: Life, pipeline: Any) -> None:
        for span in self.seeker.behind(pipeline.rejects, record.timestamp):
            for each in self.seeker.oldest_first(span):
                found = reject(each, self.prefix)
                if found is not None and found.origin == record.place:
                    said = (found.after, found.gap, found.detail or None)
                    headers = {
                        name: value.decode(errors="replace")
                        for name, value in zip(MORE_HEADERS, said, strict=True)
                        if value is not None
                    }
                    life.reject = shown(each) | {"reject-reason": found.reason} | headers
                    return

    def _find_events(self, record: Record, life: Life, pipeline: Any) -> None:
        """Events that name the record, and those that gave up what it waited for, or its label."""
        wanted = (life.reject or {}).get("reject-gap")
        channel = self._channel(record, pipeline)
        own = next(iter(life.deliveries), {})
        epoch = (record.header("epoch") or b"0").decode(errors="replace")
        for span in self.seeker.behind(pipeline.events, record.timestamp):
            for each in self.seeker.newest_first(span):
                event = object_in(each.value) or {}
                is_named = place_in(event) == record.place
                if is_named or (wanted is not None and event.get("id") == wanted):
                    life.events.append(event)
                elif event.get("event") == "gap" and each.key == channel and "label" in own:
                    life.events += [event] if _is_below(event, own, epoch) else []
        life.events.reverse()

    def _channel(self, record: Record, pipeline: Any) -> bytes | None:
        if pipeline.discipline != "channel":
            return None
        if pipeline.channel == "key":
            return record.key
        name = header_name(pipeline.channel) if isinstance(pipeline.channel, str) else None
        return record.header(name) if name else None

    def _by_marks(self, record: Record, pipeline: Any) -> str:
        """Return whether a record that went nowhere was read, by the progress marks."""
        if not pipeline.progress:
            return "unknown"
        read = -1
        for span in self.seeker.behind(pipeline.progress, 0):
            newest = next(self.seeker.newest_first(span), None)
            mark = object_in(newest.value if newest else None) or {}
            of = mark.get("inputs", {}).get(record.topic, {})
            read = max(read, int(of.get(str(record.partition), -1)))
        if read <= record.offset:
            return "waiting"
        return "held or dropped" if self._may_drop(record, pipeline) else "held"

    def _may_drop(self, record: Record, pipeline: Any) -> bool:
        if pipeline.discipline != "channel":
            return False
        channel = self._channel(record, pipeline)
        if channel is None:  # only the service reads it
            return "drop" in (pipeline.duplicates, *(each.duplicates for each in pipeline.rules))
        return bool(pipeline.drops(channel))

    # --- What it waited for.

    def _waited(self, record: Record, life: Life, pipeline: Any) -> dict[str, Any] | None:
        """The delivery before it in its channel that came last, if that came after the record."""
        channel = self._channel(record, pipeline)
        if channel is None:
            return None
        before = list(self._before(channel, life, pipeline))
        if not life.deliveries:
            last = next(iter(before), None)
            return {
                "since_ms": record.timestamp,
                "last_delivery": last and self._shown_delivery(last, pipeline),
            }
        later = [each for each in before if self._came(each, record) > self._came(record, record)]
        if not later:
            return None
        blocker = max(later, key=lambda each: self._came(each, record))
        return {
            "since_ms": record.timestamp,
            "for": self._shown_delivery(blocker, pipeline),
            "waited_ms": blocker.timestamp - record.timestamp,
            "until": text_of(origin_of(blocker, self.prefix)),
        }

    def _before(self, channel: bytes, life: Life, pipeline: Any) -> Iterator[Record]:
        """Labelled deliveries of the channel before the record's, the newest first."""
        key = channel if pipeline.channel == "key" else None
        for span in self._spans_before(life, pipeline):
            for each in self.seeker.newest_first(span, key):
                own = copies.as_sent(each, self.prefix)
                if self._channel(own, pipeline) == channel and self._has_label(each, own, pipeline):
                    yield each

    def _has_label(self, delivery: Record, own: Record, pipeline: Any) -> bool:
        """Return whether others wait for a delivery (``own``: as sent): no notice, not passed."""
        if read_notice(delivery, self.prefix, WORDS) is not None:
            return False
        label = pipeline.label
        if isinstance(label, ValueField) and label.encoding == JSON:
            return pipeline.unlabelled != "pass" or in_json(delivery.value, label.steps)[0]
        name = header_name(label)
        return pipeline.unlabelled != "pass" or name is None or own.has_header(name)

    def _spans_before(self, life: Life, pipeline: Any) -> Iterable[Span]:
        if not life.deliveries:
            spans = self.seeker.behind(pipeline.output, 0)
            return [
                Span(each.topic, each.partition, max(each.first, each.stop - BEFORE_MAX), each.stop)
                for each in spans
            ]
        (topic, partition, offset), first = _place(life.deliveries[0]), BEFORE_MAX
        span = Span(topic, partition, max(0, offset - first), offset)
        self.seeker.spans.append(span)
        return [span]

    def _came(self, each: Record, record: Record) -> tuple[int, int]:
        """When a record came as an input: by its offset in the same partition, else by its time."""
        origin = origin_of(each, self.prefix)
        if each is record:
            return (record.offset, 0)
        if origin is not None and origin[:2] == record.place[:2]:
            return (origin[2], 0)
        is_later = each.timestamp > record.timestamp
        return (record.offset + is_later, each.timestamp if is_later else 0)


def _is_command(record: Record, pipeline: Any) -> bool:
    """Return whether an input record is a command, as its last header ``op`` says."""
    op = record.header("op")
    return op is not None and op in map(str.encode, getattr(pipeline, "input_commands", ()))


def _is_below(gap: dict[str, Any], delivery: dict[str, Any], epoch: str) -> bool:
    """Return whether a gap ends at a delivery's label or below it, as far as labels are numbers.

    In the delivery's incarnation and epoch: others have labels of their own.
    """
    incarnation = delivery.get("incarnation")
    if str(gap.get("incarnation", incarnation)) != incarnation:
        return False
    own_epoch = int(epoch) if epoch.isdecimal() else epoch
    if gap.get("epoch", own_epoch) != own_epoch:
        return False
    stop, label = str(gap.get("to")), delivery["label"]
    return int(stop) <= int(label) if stop.isdecimal() and label.isdecimal() else stop == label


def _place(delivery: dict[str, Any]) -> Place:
    return delivery["topic"], delivery["partition"], delivery["offset"]


def _as_json(life: Life) -> dict[str, Any]:
    return {name: getattr(life, name) for name in Life.__slots__}


def shown(record: Record) -> dict[str, Any]:
    """A record as JSON has it, without its value."""
    topic, partition, offset = record.place
    return {
        "place": text_of(record.place),
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp_ms": record.timestamp,
        "key": None if record.key is None else key_to_json(record.key),
    }
