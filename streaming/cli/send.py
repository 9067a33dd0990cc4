"""`sequencer send`: messages into a topic, from a terminal or a pipe."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from streaming.cli.clients import (
    SECONDS_MAX,
    BootstrapOption,
    ConfigOption,
    connect,
    from_json,
    no_topic,
)
from streaming.errors import ConfigError, KafkaUnavailable
from streaming.kafka.header_names import is_header_name
from streaming.kafka.interruptible import as_interrupt

WAITING_MAX = 50_000
OWN = {"key", "value", "headers"}
PLACE = {"topic", "partition", "offset", "timestamp"}

Pairs = list[tuple[str, bytes | None]]


def send(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    values: Annotated[
        list[str] | None,
        typer.Argument(help="One message each; without any, the lines of standard input."),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Key of all messages.")] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", help="name=value, added to all; may be given often."),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(help="Partition of all messages; by default chosen by the key.", min=0),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help='Messages are {"key": …, "value": …, "headers": {…}}.')
    ] = False,
    bootstrap: BootstrapOption = None,
    config: ConfigOption = None,
) -> None:
    """Send messages to TOPIC.

    Values are sent unchanged. With --json each is an object; any part may be left out; headers
    are an object, or a list of [name, value] where a name occurs twice; {"base64": "…"} stands for
    bytes that are no text. What "tail --json" shows can be sent again.

    Exit status: 0 all are in Kafka; 1 Kafka did not take them all; 2 wrong input.

    Example: sequencer send trades.in --key IBM --header label=0 "first"
    """
    headers: Pairs = [_pair(text) for text in header or []]
    common = None if key is None else os.fsencode(key)
    texts = enumerate(_texts(values, as_json=as_json), start=1)
    records: Iterable[dict[str, Any]]
    records = (_record(*each, common, headers, as_json=as_json) for each in texts)
    if values:  # known at once; lines of standard input may come for hours
        records = _all_of(records)
    settings, topics = connect(config, bootstrap)
    if topic not in topics:
        raise no_topic([topic])
    if partition is not None and partition >= topics[topic]:
        raise ConfigError(
            f"{topic} has no partition {partition}.",
            "Nothing was sent.",
            f"Write one of 0 … {topics[topic] - 1}.",
        )
    sender = _Sender(settings, topic, partition)
    try:
        for record in records:
            sender.send(record)
    finally:  # also on Ctrl-C and at a line that is no message: what went before it goes out
        sender.finish()


class _Sender:
    """A producer that reports what became of everything it was given."""

    def __init__(self, settings: Any, topic: str, partition: int | None) -> None:
        from confluent_kafka import Producer  # noqa: PLC0415  (a quick --help)

        from streaming.kafka import client_settings, connection  # noqa: PLC0415
        from streaming.kafka.record_sizes import OF_ANY_SIZE  # noqa: PLC0415

        extra: dict[str, Any] = {"partitioner": "murmur2_random", "acks": "all"}
        extra |= {"enable.idempotence": True, **OF_ANY_SIZE}
        self._producer: Any = connection.client(
            Producer, client_settings.confluent(settings, **extra)
        )
        self._topic = topic
        self._place = {} if partition is None else {"partition": partition}
        self._sent = 0
        self._failed: list[str] = []

    def send(self, record: dict[str, Any]) -> None:
        """Take a message; waits while too many wait already, or too many bytes."""
        while len(self._producer) > WAITING_MAX or not self._is_taken(record):
            self._producer.poll(0.1)
        self._producer.poll(0)
        self._sent += 1

    def _is_taken(self, record: dict[str, Any]) -> bool:
        try:
            self._producer.produce(self._topic, on_delivery=self._note, **record, **self._place)
        except BufferError:
            return False
        except TypeError as error:
            raise as_interrupt(error) from None
        return True

    def finish(self) -> None:
        """Wait for Kafka to have all; KafkaUnavailable where it does not take them."""
        unsent = self._producer.flush(SECONDS_MAX)
        if unsent or self._failed:
            why = self._failed[0] if self._failed else f"no answer within {SECONDS_MAX} s"
            lost = unsent + len(self._failed)
            self._producer.purge()
            raise KafkaUnavailable(
                f"Kafka did not take {lost} of {self._sent} messages: {why}.",
                f"{self._sent - lost} are in {self._topic}.",
                "Send the others again when Kafka is well.",
            )
        print(f"{self._sent} sent to {self._topic}", file=sys.stderr)

    def _note(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._failed.append(error.str())


def _texts(values: list[str] | None, *, as_json: bool) -> Iterator[bytes]:
    """What to send: the arguments, or standard input's lines (blank ones are no JSON)."""
    if values:
        yield from map(os.fsencode, values)
        return
    if sys.stdin.isatty():
        print("One message a line; Ctrl-D ends.", file=sys.stderr)
    for line in sys.stdin.buffer:
        text = line.removesuffix(b"\n")
        if text.strip() or not as_json:
            yield text


def _pair(text: str) -> tuple[str, bytes]:
    name, separator, value = text.partition("=")
    if not is_header_name(name):
        raise ConfigError(
            f"--header {text}: its name is not UTF-8.", "Nothing was sent.", "Write another name."
        )
    if not separator:
        raise ConfigError(
            f"--header {text} has no value.", "Nothing was sent.", "Write name=value."
        )
    return name, os.fsencode(value)


def _all_of(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all records, before any is sent."""
    try:
        return list(records)
    except ConfigError as error:
        raise ConfigError(error.message, "Nothing was sent.", error.remedy) from error


def _record(
    number: int, text: bytes, key: bytes | None, headers: Pairs, *, as_json: bool
) -> dict[str, Any]:
    if not as_json:
        return {"key": key, "value": text, "headers": headers}
    try:
        fields = json.loads(text)
        if not isinstance(fields, dict):
            raise TypeError("it is not an object { … }")  # noqa: TRY301  (reported with the others)
        if strange := fields.keys() - OWN - PLACE:
            raise ValueError(f"unknown {', '.join(sorted(strange))}; known: key, value, headers")  # noqa: TRY301
        return {
            "key": from_json(fields["key"]) if "key" in fields else key,
            "value": from_json(fields.get("value")),
            "headers": [*_headers(fields.get("headers")), *headers],
        }
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError(
            f"Message {number} is none: {error}.",
            f"{number - 1} before it were sent, those after it not.",
            'Write {"key": "k", "value": "v", "headers": {"label": "0"}}.',
        ) from error


def _headers(headers: Any) -> Pairs:
    pairs = headers.items() if isinstance(headers, dict) else headers or []
    read = [(name, from_json(value)) for name, value in pairs]
    if not all(is_header_name(name) for name, _ in read):
        raise TypeError("names of headers are text, in UTF-8 and without NUL")
    return read
