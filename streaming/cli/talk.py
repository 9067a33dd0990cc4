"""`sequencer send` and `sequencer tail`: try a topic out from a terminal."""

from __future__ import annotations

import base64
import json
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from streaming.errors import ConfigError, KafkaUnavailable

SECONDS_MAX = 30
ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="Take address and security from this TOML file.")
]
BootstrapOption = Annotated[str, typer.Option(help="Kafka's address, without --config.")]


def send(
    topic: Annotated[str, typer.Argument(help="Where to.")],
    values: Annotated[
        list[str] | None, typer.Argument(help="One message each; else the lines of standard input.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Key of all messages.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", help="name=value; may be given often.")
    ] = None,
    partition: Annotated[int, typer.Option(help="Partition; -1 follows the key.")] = -1,
    as_json: Annotated[
        bool, typer.Option("--json", help='Lines are {"key": …, "value": …, "headers": {…}}.')
    ] = False,
    bootstrap: BootstrapOption = "localhost:9092",
    config: ConfigOption = None,
) -> None:
    """Send messages to TOPIC.

    Exit status: 0 all are in Kafka; 1 Kafka did not take them all; 2 wrong input.

    Example: sequencer send trades.in --key IBM --header label=0 "first"
    """
    from confluent_kafka import KafkaException, Producer  # noqa: PLC0415  (a quick --help)

    settings = {**_settings(config, bootstrap), "partitioner": "murmur2_random", "acks": "all"}
    headers = [_pair(each) for each in header or []]
    failed: list[str] = []
    producer = Producer(settings, logger=_quiet())

    def note(error: Any, _message: Any) -> None:
        if error is not None:
            failed.append(error.str())

    sent = 0
    try:
        for text in values or (line.rstrip("\n") for line in sys.stdin):
            record = _record(text, key, headers, as_json=as_json)
            while len(producer) > 50_000:
                producer.poll(0.1)
            extra = {"partition": partition} if partition >= 0 else {}
            producer.produce(topic, on_delivery=note, **record, **extra)
            producer.poll(0)
            sent += 1
        left = producer.flush(SECONDS_MAX)
    except KafkaException as error:
        raise KafkaUnavailable(f"Sending failed: {error.args[0].str()}.") from error
    if left or failed:
        why = failed[0] if failed else f"Kafka did not answer within {SECONDS_MAX} s"
        producer.purge()
        raise KafkaUnavailable(
            f"{left + len(failed)} of {sent} messages were not taken: {why}.",
            remedy="Check the topic (sequencer topics) and the address.",
        )
    print(f"{sent} sent", file=sys.stderr)


def tail(
    topics: Annotated[list[str], typer.Argument(help="Which topics.")],
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="All there is, then what comes.")
    ] = False,
    most: Annotated[int, typer.Option("--max", help="Stop after so many messages; 0: never.")] = 0,
    timeout: Annotated[
        float, typer.Option(help="Stop after so many seconds without a message; 0: never.")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    bootstrap: BootstrapOption = "localhost:9092",
    config: ConfigOption = None,
) -> None:
    """Show the messages of TOPICS as they come (committed ones only), until Ctrl-C.

    With --json, bytes that are not UTF-8 text are given as {"base64": …}.

    Exit status: 0; 1 Kafka does not answer; 2 wrong input.

    Example: sequencer tail trades.out --from-beginning --max 10
    """
    messages = _messages(_settings(config, bootstrap), topics, timeout, beginning=from_beginning)
    for shown, message in enumerate(messages, start=1):
        print(_as_json(message) if as_json else _as_text(message), flush=True)
        if shown == most:
            return


def _messages(
    settings: dict[str, Any], topics: list[str], timeout: float, *, beginning: bool
) -> Iterator[Any]:
    from confluent_kafka import Consumer, KafkaError, KafkaException  # noqa: PLC0415

    consumer = Consumer(
        {
            **settings,
            "group.id": f"sequencer-tail-{uuid.uuid4()}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest" if beginning else "latest",
        },
        logger=_quiet(),
    )
    try:
        there = consumer.list_topics(timeout=SECONDS_MAX).topics
        missing = [name for name in topics if name not in there]
        if missing:
            raise ConfigError(f"There is no topic {', '.join(missing)}.", remedy="sequencer topics")
        consumer.subscribe(topics)
        quiet_s = 0.0
        while not timeout or quiet_s < timeout:
            message = consumer.poll(0.5)
            quiet_s = quiet_s + 0.5 if message is None else 0.0
            if message is None:
                continue
            if message.error():
                if message.error().code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  (its name)
                    raise KafkaException(message.error())
                continue
            yield message
    except KafkaException as error:
        raise KafkaUnavailable(f"Reading failed: {error.args[0].str()}.") from error
    finally:
        consumer.close()


def _settings(config: Path | None, bootstrap: str) -> dict[str, Any]:
    if config is None:
        return {"bootstrap.servers": bootstrap}
    from streaming import kafka  # noqa: PLC0415
    from streaming.config import load_config  # noqa: PLC0415

    return kafka.connection(kafka.confluent(load_config(config)))


def _quiet() -> Any:
    from streaming import kafka  # noqa: PLC0415

    return kafka.quiet()


def _pair(text: str) -> tuple[str, bytes]:
    name, separator, value = text.partition("=")
    if not separator:
        raise ConfigError(f"--header {text}: write name=value.")
    return name, value.encode()


def _record(
    text: str, key: str | None, headers: list[tuple[str, bytes]], *, as_json: bool
) -> dict[str, Any]:
    if not as_json:
        return {"key": key, "value": text.encode(), "headers": headers}
    try:
        given = json.loads(text)
        own = [(name, _bytes(value)) for name, value in dict(given.get("headers") or {}).items()]
        return {
            "key": _bytes(given.get("key", key)),
            "value": _bytes(given.get("value")),
            "headers": [*own, *headers],
        }
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{text!r} is no message: {error}.", remedy="See --json in --help."
        ) from error


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, dict):
        return base64.b64decode(value["base64"])
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def _shown(data: bytes | None) -> str:
    return "null" if data is None else data.decode(errors="backslashreplace")


def _as_text(message: Any) -> str:
    pairs = " ".join(f"{name}={_shown(value)}" for name, value in message.headers() or [])
    place = f"{message.topic()}/{message.partition()}@{message.offset()}"
    return f"{place}  {_shown(message.key())}  [{pairs}]  {_shown(message.value())}"


def _as_json(message: Any) -> str:
    def value(data: bytes | None) -> Any:
        if data is None:
            return None
        try:
            return data.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(data).decode()}

    return json.dumps(
        {
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": message.timestamp()[1],
            "key": value(message.key()),
            "headers": [[name, value(data)] for name, data in message.headers() or []],
            "value": value(message.value()),
        }
    )
