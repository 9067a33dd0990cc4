"""The deliveries of one input record: by the header `origin`, else by their bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from streaming.arrow.partitioner import partition_of
from streaming.verify import origins
from streaming.verify.added import without
from streaming.verify.origins import content_of, read_origin, text_of
from streaming.verify.records import Record
from streaming.verify.seeking import Seeker, Span

NAMING = {
    "channel": origins.of_channel,
    "group": origins.of_group,
    "multicast": origins.of_multicast,
    "label": origins.of_label,
}
SENDER = {"group": "sender", "multicast": "from"}
"""The header that names a message's sender, where it is not the delivery's key."""
BEHIND_MAX = 20_000
"""Copies of a message lie together: farther than this from one of them, none is looked for."""


def home_first(spans: list[Span], key: bytes | None) -> list[Span]:
    """Spans of all partitions of a topic; first the one where records of a key usually are."""
    if key is None or not spans:
        return spans
    home = partition_of(key, len(spans))
    return sorted(spans, key=lambda span: span.partition != home)


def found(
    seeker: Seeker, span: Span, record: Record, pipeline: Any, prefix: str
) -> Iterator[Record]:
    """The deliveries of a record in a partition.

    Where they name their inputs, the oldest are read first; if messages keep the order of their
    input, no further than BEHIND_MAX behind the first delivery of a later one. Else the newest.
    """
    matches = _matcher(record, pipeline, prefix)
    ways = (getattr(pipeline, "sequencing", None), getattr(pipeline, "order", None))
    keeps_order = pipeline.origin and "batch" in ways
    records = seeker.oldest_first(span) if pipeline.origin else seeker.newest_first(span)
    last: int | None = None
    for each in records:
        if last is not None and abs(each.offset - last) > BEHIND_MAX:
            return
        if matches(each):
            last = each.offset
            yield each
        elif last is None and keeps_order:
            came = read_origin(each.header(prefix + "origin"))
            if came is not None and came[:2] == record.place[:2] and came > record.place:
                last = each.offset


def as_sent(delivery: Record, prefix: str) -> Record:
    """Return a channel's delivery without the headers that the service put behind its own."""
    has_origin = bool(delivery.headers) and delivery.headers[-1][0] == prefix + "origin"
    return without(delivery, 3 if has_origin else 2)


def is_of(delivery: Record, record: Record, discipline: str, prefix: str) -> bool:
    """Return whether an input's sender, or channel's key, is that of a delivery."""
    name = SENDER.get(discipline)
    return record.key == (delivery.header(prefix + name) if name else delivery.key)


def _matcher(record: Record, pipeline: Any, prefix: str) -> Callable[[Record], bool]:
    """Return whether a record of the output is this input: by its header, else by its bytes."""
    name, wanted = prefix + "origin", str(text_of(record.place)).encode()
    content, naming = content_of(record, len(record.headers)), NAMING[pipeline.discipline]

    def matches(each: Record) -> bool:
        if each.headers and each.headers[-1][0] == name:
            return each.headers[-1][1] == wanted
        if each.timestamp != record.timestamp or each.value != record.value:
            return False
        if not is_of(each, record, pipeline.discipline, prefix):
            return False
        named = naming(each, prefix)
        return named is not None and content_of(each, len(each.headers) - named[0]) == content

    return matches
