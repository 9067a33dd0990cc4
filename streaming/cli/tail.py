"""`sequencer tail`: the messages of topics as they come."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streaming.arrow.key_text import escaped, unescaped
from streaming.cli.by_time import ByTime
from streaming.cli.clients import (
    BootstrapOption,
    ConfigOption,
    connect,
    end_output,
    no_topic,
    to_json,
)
from streaming.errors import ConfigError

if TYPE_CHECKING:
    from streaming.kafka.reading import Record, TopicReader

POLL_SECONDS = 0.2
ORDER_SECONDS_MAX = 10


def tail(
    topics: Annotated[list[str], typer.Argument(help="Which topics.")],
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="All existing messages, then new ones.")
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(
            help='Messages since then, and new ones: "5 min" ago, or a time, '
            "2026-11-22T09:00:00 (UTC)."
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", "-k", help="Only messages with this key, as shown here.")
    ] = None,
    most: Annotated[
        int, typer.Option("--max", help="Stop after this many messages; 0: never.", min=0)
    ] = 0,
    timeout: Annotated[
        float, typer.Option(help="Stop after this many seconds without a message; 0: never.", min=0)
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    bootstrap: BootstrapOption = None,
    config: ConfigOption = None,
) -> None:
    """Show the messages of TOPICS as they arrive, until Ctrl-C.

    Only committed messages are shown. Existing messages are sorted by time across partitions. A
    line has topic/partition@offset, time (UTC), key, [headers] and value; unprintable characters
    are escaped. With --json, bytes that are not UTF-8 text are {"base64": "…"}.

    Exit status: 0 --max or --timeout was reached; 1 Kafka does not answer; 2 wrong input; 130 after
    Ctrl-C.

    Example: sequencer tail trades.out --since "5 min" --key IBM
    """
    wanted = _key(key)
    since_ms = _begin(since, from_beginning=from_beginning)
    settings, there = connect(config, bootstrap)
    if missing := [name for name in topics if name not in there]:
        raise no_topic(missing)
    places = [
        (name, partition) for name in dict.fromkeys(topics) for partition in range(there[name])
    ]
    messages = _messages(settings, places, timeout, since_ms, wanted)
    try:
        for shown, message in enumerate(messages, start=1):
            print(_as_json(message) if as_json else _as_text(message), flush=True)
            if shown == most:
                return
    except BrokenPipeError:
        end_output()


def _key(text: str | None) -> bytes | None:
    try:
        return None if text is None else unescaped(text)
    except ValueError as error:
        raise ConfigError(f"--key {text} {error}.", "Nothing was read.") from error


def _begin(since: str | None, *, from_beginning: bool) -> int | None:
    """Return the time (ms since 1970) from which messages are shown; None: from now on."""
    if since is None:
        return 0 if from_beginning else None
    if from_beginning:
        raise ConfigError(
            "--from-beginning and --since both say where to begin.",
            "Nothing was read.",
            "Give one of them.",
        )
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415  (a quick --help)

    from streaming.settings.values import Duration  # noqa: PLC0415

    with suppress(ValidationError):
        return round(time.time() * 1000) - TypeAdapter(Duration).validate_python(since).ms
    try:
        at = datetime.fromisoformat(since)
    except ValueError:
        raise ConfigError(
            f"--since {since} is neither a length of time nor a time.",
            "Nothing was read.",
            'Write for instance --since "5 min" or --since 2026-11-22T09:00:00 (UTC).',
        ) from None
    since_ms = round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    return max(0, since_ms)  # of Kafka's own negative times none is one


def _messages(
    settings: Any,
    places: list[tuple[str, int]],
    timeout: float,
    since_ms: int | None,
    key: bytes | None,
) -> Iterator[Record]:
    from streaming.kafka.reading import ENDS, TopicReader  # noqa: PLC0415  (a quick --help)

    effect = "What was shown is right, but there may be more."
    remedy = "Check that the topic is still there, and the right to read it."
    own = {"error_cb": _tell, **ENDS}
    merged = ByTime(places)
    with TopicReader(settings, "tail", effect=effect, remedy=remedy, settings=own) as reader:
        reader.assign(_starts(reader, places, since_ms))
        print("Waiting for messages; Ctrl-C ends.", file=sys.stderr, flush=True)
        polled = last = time.monotonic()
        while merged.open or not timeout or time.monotonic() - last < timeout:
            if _poll(reader, merged):
                polled = time.monotonic()
            elif time.monotonic() - polled > ORDER_SECONDS_MAX:
                merged.open.clear()  # a partition without a leader holds nothing up for ever
            for message in merged.ready():
                if key in (None, message.key):
                    last = time.monotonic()
                    yield message


def _starts(
    reader: TopicReader, places: list[tuple[str, int]], since_ms: int | None
) -> dict[tuple[str, int], int]:
    """Return the offset from which each partition is read."""
    from streaming.kafka.reading import BEGINNING  # noqa: PLC0415

    if since_ms is None:
        return reader.ends(places)
    return reader.since(places, since_ms) if since_ms else dict.fromkeys(places, BEGINNING)


def _poll(reader: TopicReader, merged: ByTime) -> bool:
    """Take a message, or the news that a partition has no more; return whether there was any."""
    from streaming.kafka.reading import End  # noqa: PLC0415

    pause, go_on = merged.paces()
    reader.pause(pause)
    reader.resume(go_on)
    taken = reader.take(POLL_SECONDS)
    for each in taken:
        if isinstance(each, End):
            merged.end(each.home)
        else:
            merged.put(each)
    return bool(taken)


def _tell(error: Any) -> None:
    """What librdkafka meets and mends itself; people want to know why nothing comes."""
    from confluent_kafka import KafkaError  # noqa: PLC0415

    if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001  (librdkafka's own name)
        print("Kafka is away; waiting for it.", file=sys.stderr, flush=True)


def shown(data: bytes | None) -> str:
    """Bytes for a terminal: null and empty differ, nothing moves the cursor."""
    if data is None:
        return "null"
    text = escaped(data)
    return text if text not in ("", "null") else f'"{text}"'


def _as_text(message: Record) -> str:
    pairs = " ".join(f"{shown(name.encode())}={shown(value)}" for name, value in message.headers)
    at = _time(message.timestamp)
    return f"{message.place_text}  {at}  {shown(message.key)}  [{pairs}]  {shown(message.value)}"


def _time(ms: int) -> str:
    """Return a record's time (UTC); as it stands where no calendar has it."""
    try:
        text = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"
    return text.replace("+00:00", "Z")


def _as_json(message: Record) -> str:
    return json.dumps(
        {
            "topic": message.topic,
            "partition": message.partition,
            "offset": message.offset,
            "timestamp": message.timestamp,
            "key": to_json(message.key),
            "headers": [[name, to_json(data)] for name, data in message.headers],
            "value": to_json(message.value),
        }
    )
