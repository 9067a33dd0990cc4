"""What an ordered topic holds: records with the headers that the service put behind their own."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from streaming.errors import ConfigError, SequencerError

Header = tuple[str, bytes | None]
Headers = tuple[Header, ...]
Stamp = tuple[str, str, int]

COUNTS = ("sequence", "incarnation")
GROUP = ("sender", "group-sequence", "group-version", "stamps")
NOTICE = ("notice", "detail")
CHANNEL_WORDS = (b"gap", b"fin", b"epoch", b"reset")
MULTICAST = ("from", "destination", "timestamp", "handles", "handles-invalid", "notice")
OPTIONAL = {"stamps", "handles", "handles-invalid", "notice"}


def to_bytes(name: bytes | str) -> bytes:
    """A key as Kafka has it; text as UTF-8."""
    return name.encode() if isinstance(name, str) else name


@dataclass(frozen=True, slots=True)
class Delivery:
    """An ordered record; ``headers`` are those of the input record, ``timestamp`` is in ms.

    ``origin``: where its input record lies, ``topic/partition@offset``, if the pipeline names it.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    sequence: int
    incarnation: int
    origin: str | None = field(default=None, kw_only=True)

    @property
    def place(self) -> str:
        """Its place, as headers of causes write it: ``topic/partition@offset``."""
        return f"{self.topic}/{self.partition}@{self.offset}"

    def header(self, name: str) -> bytes | None:
        """The last header of that name, or None."""
        return next((value for known, value in reversed(self.headers) if known == name), None)


@dataclass(frozen=True, slots=True)
class GroupDelivery(Delivery):
    """A message of a group. Its key is the subscriber; (group, version, sequence) identifies it.

    ``stamps``: (group, group, number) for each overlap that the subscriber is in.
    """

    sender: bytes
    group: str
    group_sequence: int
    group_version: int
    stamps: tuple[Stamp, ...]


@dataclass(frozen=True, slots=True)
class MulticastDelivery(Delivery):
    """A message to several peers; its key is the peer that receives it.

    (``stamp``, ``sender``), the headers `timestamp` and `from`, is one total order of messages and
    destructions. ``destination`` is the peer or ``@node`` that the sender named. ``handles`` are
    names of nodes that still were (None where the message has no such header).
    """

    sender: bytes
    stamp: int
    destination: bytes
    handles: tuple[str, ...] | None
    handles_invalid: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Notice(Delivery):
    """A node was destroyed; its key is the peer that held the node's handle.

    Before it the handle is valid, behind it no more. ``sender`` was the node's owner.
    """

    sender: bytes
    stamp: int
    node: str


@dataclass(frozen=True, slots=True)
class ChangeNotice(Delivery):
    """A change of the key's stream, in its place.

    For a subscriber, a group: ``word`` is `joined`, `left` or `removed`. For a channel, `gap`,
    `fin`, `epoch` or `reset`; its key is the channel. ``detail``: the event that reports it.
    """

    word: str
    detail: Mapping[str, Any]


def channel_delivery(
    record: dict[str, Any], headers: Headers, prefix: str
) -> Delivery | ChangeNotice:
    """A delivery of discipline `channel` or `label`, or the notice of an event.

    A sender's record without a label may have the headers of a notice; it is no notice then.
    """
    if record["value"] is None and _is_notice(headers, prefix) and _has_event(headers):
        return _change_notice(record, headers, prefix)
    added, own = _added(headers, prefix, ())
    return Delivery(**record, headers=own, **_counts(added))


def group_delivery(
    record: dict[str, Any], headers: Headers, prefix: str
) -> GroupDelivery | ChangeNotice:
    """A delivery of discipline `group`, or the notice of a change."""
    if _is_notice(headers, prefix):
        return _change_notice(record, headers, prefix)
    added, own = _added(headers, prefix, GROUP)
    group = next((value for name, value in reversed(own) if name == "group"), None) or b""
    return GroupDelivery(
        **record,
        headers=own,
        **_counts(added),
        sender=added["sender"] or b"",
        group=group.decode(errors="surrogateescape"),
        group_sequence=int(added["group-sequence"] or b"none"),
        group_version=int(added["group-version"] or b"none"),
        stamps=tuple(
            (one, two, number) for one, two, number in json.loads(added["stamps"] or "[]")
        ),
    )


def multicast_delivery(
    record: dict[str, Any], headers: Headers, prefix: str
) -> MulticastDelivery | Notice:
    """A delivery of discipline `multicast`, or the notice of a node's end."""
    added, own = _added(headers, prefix, MULTICAST)
    stamped: dict[str, Any] = {
        "sender": added["from"] or b"",
        "stamp": int(added["timestamp"] or b"none"),
    }
    if added["notice"] is not None:
        node = added["notice"].decode()
        return Notice(**record, headers=own, **_counts(added), **stamped, node=node)
    return MulticastDelivery(
        **record,
        headers=own,
        **_counts(added),
        **stamped,
        destination=added["destination"] or b"",
        handles=None if added["handles"] is None else _nodes(added["handles"]),
        handles_invalid=_nodes(added["handles-invalid"] or b""),
    )


READERS: Mapping[str, Callable[[dict[str, Any], Headers, str], Any]] = {
    "channel": channel_delivery,
    "label": channel_delivery,
    "group": group_delivery,
    "multicast": multicast_delivery,
}


def require_known(discipline: str, topics: object) -> None:
    """Raise ConfigError for a discipline that there is not, no topics, or a text in their place."""
    if discipline not in READERS:
        raise ConfigError(
            f"There is no discipline {discipline!r}.",
            "Nothing was read.",
            f"Write one of {', '.join(READERS)}.",
        )
    if isinstance(topics, str):
        raise ConfigError(
            f"topics is the text {topics!r}, where a list of topics is meant.",
            "Nothing was read.",
            f"Write [{topics!r}].",
        )
    if not topics:
        raise ConfigError(
            "There is no topic to read.", "Nothing was read.", "Name the topics, in a list."
        )


def keys_of(keys: Collection[bytes | str] | None) -> set[bytes] | None:
    """The keys to read for; ConfigError where they are one name, which would count by letters."""
    if isinstance(keys, (bytes, str)):
        raise ConfigError(
            f"keys is the name {keys!r}, where a list of names is meant.",
            "Nothing was read.",
            f"Write [{keys!r}].",
        )
    return None if keys is None else {to_bytes(key) for key in keys}


def read(
    discipline: str, record: dict[str, Any], headers: Headers, prefix: str
) -> Delivery | GroupDelivery | MulticastDelivery | Notice | ChangeNotice:
    """The delivery that a record is; SequencerError where it is none of the discipline's."""
    origin: str | None = None
    if headers and headers[-1][0] == prefix + "origin":  # else the last one is `incarnation`
        origin, headers = (headers[-1][1] or b"").decode(errors="replace"), headers[:-1]
    record = {**record, "origin": origin}
    try:
        found: Delivery = READERS[discipline](record, headers, prefix)
    except (ValueError, KeyError) as error:
        where = f"{record['topic']}/{record['partition']}@{record['offset']}"
        raise SequencerError(
            f"{where} is not an output of a {discipline} pipeline: {error}.",
            "It was not returned.",
            "Check topic, discipline and header_prefix.",
        ) from error
    return found


def _is_notice(headers: Headers, prefix: str) -> bool:
    return [name for name, _ in headers] == [prefix + name for name in (*NOTICE, *COUNTS)]


def _has_event(headers: Headers) -> bool:
    word, detail = (value or b"" for _, value in headers[: len(NOTICE)])
    try:
        event = json.loads(detail)
    except (ValueError, RecursionError):
        return False
    return isinstance(event, dict) and word in CHANNEL_WORDS


def _change_notice(record: dict[str, Any], headers: Headers, prefix: str) -> ChangeNotice:
    added, own = _added(headers, prefix, NOTICE)
    word, detail = (added["notice"] or b"").decode(), json.loads(added["detail"] or b"none")
    return ChangeNotice(**record, headers=own, **_counts(added), word=word, detail=detail)


def _nodes(listed: bytes) -> tuple[str, ...]:
    """Nodes by name, of a header that lists them as ``@name,@name``."""
    return tuple(name.decode().removeprefix("@") for name in listed.split(b",") if name)


def _counts(added: Mapping[str, bytes | None]) -> dict[str, Any]:
    return {name: int(added[name] or b"none") for name in COUNTS}


def _added(
    headers: Headers, prefix: str, names: tuple[str, ...]
) -> tuple[dict[str, bytes | None], Headers]:
    """The service's headers, which come last and in this order, and the record's own.

    From the end backwards, as the record's own headers may have the same names.
    """
    added: dict[str, bytes | None] = dict.fromkeys(names)
    end = len(headers)
    for name in reversed((*names, *COUNTS)):
        if end and headers[end - 1][0] == prefix + name:
            end -= 1
            added[name] = headers[end][1]
        elif name not in OPTIONAL:
            raise ValueError(f"it has no header {prefix}{name} where the service puts it")
    return added, headers[:end]
