"""`sequencer tail`: the messages of topics as they come."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from streaming.arrow.key_text import escaped
from streaming.cli.clients import (
    BootstrapOption,
    ConfigOption,
    connect,
    end_output,
    no_topic,
    to_json,
)
from streaming.errors import KafkaUnavailable

POLL_SECONDS = 0.2


def tail(
    topics: Annotated[list[str], typer.Argument(help="Which topics.")],
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="All there is, then what comes.")
    ] = False,
    most: Annotated[
        int, typer.Option("--max", help="Stop after so many messages; 0: never.", min=0)
    ] = 0,
    timeout: Annotated[
        float, typer.Option(help="Stop after so many seconds without a message; 0: never.", min=0)
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    bootstrap: BootstrapOption = None,
    config: ConfigOption = None,
) -> None:
    """Show the messages of TOPICS as they come, until Ctrl-C.

    Only what is committed is shown. A line has topic/partition@offset, key, [headers] and value;
    what cannot be printed is escaped. With --json, bytes that are no UTF-8 text are
    {"base64": "…"}.

    Exit status: 0, also after Ctrl-C; 1 Kafka does not answer; 2 wrong input.

    Example: sequencer tail trades.out --from-beginning --max 10
    """
    settings, there = connect(config, bootstrap)
    if missing := [name for name in topics if name not in there]:
        raise no_topic(missing)
    places = [
        (name, partition) for name in dict.fromkeys(topics) for partition in range(there[name])
    ]
    messages = _messages(settings, places, timeout, from_beginning=from_beginning)
    try:
        for shown, message in enumerate(messages, start=1):
            print(_as_json(message) if as_json else _as_text(message), flush=True)
            if shown == most:
                return
    except KeyboardInterrupt:
        return  # the way to end it
    except BrokenPipeError:
        end_output()


def _messages(
    settings: Any, places: list[tuple[str, int]], timeout: float, *, from_beginning: bool
) -> Iterator[Any]:
    from confluent_kafka import (  # noqa: PLC0415  (a quick --help)
        OFFSET_BEGINNING,
        KafkaException,
        TopicPartition,
    )

    from streaming.kafka import connection  # noqa: PLC0415
    from streaming.kafka.topics import end_of  # noqa: PLC0415

    consumer = connection.reader(settings, "tail", error_cb=_tell)
    try:
        starts = [TopicPartition(name, partition, OFFSET_BEGINNING) for name, partition in places]
        if not from_beginning:
            for start in starts:
                start.offset = end_of(consumer, start)
        consumer.assign(starts)
        print("Waiting for messages; Ctrl-C ends.", file=sys.stderr, flush=True)
        last = time.monotonic()
        while not timeout or time.monotonic() - last < timeout:
            message = consumer.poll(POLL_SECONDS)
            if not connection.is_record(message):
                continue
            yield message
            last = time.monotonic()
    except KafkaException as error:
        raise KafkaUnavailable(
            settings.hide(f"Reading failed: {error.args[0].str()}."),
            "What was shown is right, but there may be more.",
            "Check that the topic is still there, and the right to read it.",
        ) from error
    finally:
        consumer.close()


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


def _as_text(message: Any) -> str:
    pairs = " ".join(
        f"{shown(name.encode())}={shown(value)}" for name, value in message.headers() or []
    )
    place = f"{message.topic()}/{message.partition()}@{message.offset()}"
    return f"{place}  {shown(message.key())}  [{pairs}]  {shown(message.value())}"


def _as_json(message: Any) -> str:
    return json.dumps(
        {
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": message.timestamp()[1],
            "key": to_json(message.key()),
            "headers": [[name, to_json(data)] for name, data in message.headers() or []],
            "value": to_json(message.value()),
        }
    )
