"""Sending one command to a running pipeline, and waiting for its answer on the events topic."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from typing import Any

from streaming import logs
from streaming.arrow.json_object import object_in
from streaming.config import Config
from streaming.errors import ConfigError, JobFailed, KafkaUnavailable
from streaming.kafka import client_settings, connection, topics
from streaming.kafka.reading import Record, TopicReader
from streaming.kafka.record_sizes import OF_ANY_SIZE

POLL_SECONDS = 0.2
SILENT_SECONDS_MAX = 5
"""How long to wait without a word."""
ANSWERS = ("command-done", "command-refused")


def ask(
    config: Config,
    name: str,
    command: Mapping[str, Any],
    key: bytes | None,
    limit_s: float,
    *,
    is_stopped: bool = False,
) -> dict[str, Any]:
    """Return the event that answers a command to a pipeline.

    ``is_stopped``: it is known that nobody answers yet, which is said before the wait.

    Raises ConfigError where topics are missing or a name is not Unicode, KafkaUnavailable where
    Kafka does not take the command or cannot be read, and JobFailed where no answer comes within
    ``limit_s``; the command then stays in its topic.
    """
    pipeline = config.pipelines[name]
    value = _encoded({"id": str(uuid.uuid4()), **command})
    counts = topics.partitions(config, (pipeline.events, pipeline.commands))
    reader = TopicReader(
        config,
        "ask",
        "The answer could not be read",
        f"The command may stand in {pipeline.commands}; it then takes effect once.",
        "Look at the brokers, and at the rights of this user.",
    )
    place: tuple[str, int, int] | None = None
    try:
        homes = [(pipeline.events, number) for number in range(counts[pipeline.events])]
        reader.assign(reader.ends(homes))
        place = _send(config, pipeline.commands, value, key)
        if is_stopped:
            logs.say(
                f"The service does not run. The command {_standing(place)} Waiting up to "
                f"{limit_s:g} s for that; Ctrl-C ends the wait, not the command.",
                level="warning",
            )
        deadline = time.monotonic() + limit_s
        silent_s = limit_s if is_stopped else min(limit_s, SILENT_SECONDS_MAX)
        answer = _answer(reader, place, time.monotonic() + silent_s)
        if answer is None and silent_s < limit_s:
            logs.say(f"No answer yet. The command {_standing(place)} Waiting up to {limit_s:g} s.")
            answer = _answer(reader, place, deadline)
    except KeyboardInterrupt:
        sent = (
            _standing(place)
            if place
            else f"may stand in {pipeline.commands}; then it takes effect."
        )
        logs.say(f"The command {sent}")
        raise
    finally:
        reader.close()
    if answer is None:
        raise JobFailed(
            f"No answer within {limit_s:g} s.",
            f"The command {_standing(place)}",
            ("Start the service." if is_stopped else "Does the service run (`sequencer status`)?")
            + f" Its answer will be on {pipeline.events}.",
        )
    return answer


def _standing(place: tuple[str, int, int]) -> str:
    topic, partition, offset = place
    return (
        f"stands in {topic} (partition {partition}, offset {offset}) and takes effect, once, when "
        "the service reads it."
    )


def _encoded(command: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(command, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:  # an argument with other bytes
        raise ConfigError("A name in the command is not UTF-8.", "Nothing was sent.") from error


def _send(config: Config, topic: str, value: bytes, key: bytes | None) -> tuple[str, int, int]:
    """Send the command; where it stands now."""
    from confluent_kafka import Producer  # noqa: PLC0415

    once = {"acks": "all", "enable.idempotence": True, **OF_ANY_SIZE}
    producer = connection.client(Producer, client_settings.confluent(config, **once))
    errors: list[Any] = []
    producer.produce(topic, value, key, on_delivery=lambda *report: errors.append(report))
    producer.flush(topics.SECONDS_MAX)
    if not errors or errors[0][0] is not None:
        why = errors[0][0].str() if errors else "it does not answer"
        raise KafkaUnavailable(
            config.hide(f"Kafka did not take the command: {why}."),
            "Nothing was changed." if errors else "It may still arrive.",
            f"Look at the brokers, and at this user's right to write {topic}.",
        )
    message = errors[0][1]
    return topic, int(message.partition()), int(message.offset())


def _answer(
    reader: TopicReader, place: tuple[str, int, int], deadline: float
) -> dict[str, Any] | None:
    while time.monotonic() < deadline:
        for record in reader.take(POLL_SECONDS):
            event = object_in(record.value if isinstance(record, Record) else None) or {}
            asked = tuple(event.get(name) for name in ("topic", "partition", "offset"))
            if asked == place and event.get("event") in ANSWERS:
                return event
    return None
