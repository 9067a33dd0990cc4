"""`sequencer init`: a first configuration file."""

from __future__ import annotations

import json
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streaming.cli.clients import ADDRESS_DEFAULT
from streaming.errors import ConfigError

if TYPE_CHECKING:
    from streaming.config import Config

SHOWN_MAX = 20
BARE = re.compile(r"[A-Za-z0-9_-]+")  # what TOML takes as a key without quotes


class Discipline(StrEnum):
    """The disciplines that a first pipeline can have."""

    CHANNEL = "channel"
    GROUP = "group"
    MULTICAST = "multicast"
    LABEL = "label"


PIPELINES = {
    Discipline.CHANNEL: """\
discipline = "channel"           # each channel's records by their labels
input = [{input}]
# channel = "key"                # what a record's channel is; the default: its key
# label = "header('label')"      # where its label stands; the default
# labels = {{ kind = "linear", start = 0, step = 1 }}
gap = {{ policy = "wait" }}        # a missing label is waited for
# gap = {{ policy = "skip", after = "5 s" }}   # or given up after 5 s, which an event says
# buffer = {{ held = 10000, window = 1000000, full = "reject" }}   # of each channel
""",
    Discipline.GROUP: """\
discipline = "group"             # each group's messages in one order for all its subscribers
input = [{input}]                # key: the sender; header "group": the group
groups = {{ G0 = ["A", "B"], G1 = ["A", "B", "C"] }}   # the first members; later: sequencer group
""",
    Discipline.MULTICAST: """\
discipline = "multicast"         # one total order of messages to any peers
input = [{input}]                # key: the sender; header "to": the destinations
""",
    Discipline.LABEL: """\
discipline = "label"             # each channel's records get the labels 0, 1, 2, … as they arrive
input = [{input}]
# channel = "key"                # what a record's channel is; the default: its key
""",
}
SERVICE = """\
# A configuration of `sequencer`, made by: sequencer init
# `sequencer check {file}` shows every setting with its default and names every mistake.

[service]
name = {quoted}                  # one name for each service that uses this Kafka
checkpoint = {checkpoint}        # what the service remembers: on a disk that lasts, backed up
# metrics = "127.0.0.1:9404"     # /metrics for Prometheus, /healthz, /readyz

[kafka]
bootstrap_servers = {address}
# properties = {{ "security.protocol" = "SASL_SSL", "sasl.mechanism" = "SCRAM-SHA-512", \
"sasl.username" = "sequencer", "sasl.password" = "${{KAFKA_PASSWORD}}" }}

[pipelines.{key}]               # writes {name}.out, {name}.rejects and {name}.events
"""


def init(
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path("sequencer.toml"),
    topics: Annotated[
        list[str] | None,
        typer.Option("--input", help="An input topic; may be given several times."),
    ] = None,
    discipline: Annotated[
        Discipline, typer.Option(help="What orders the messages.")
    ] = Discipline.CHANNEL,
    name: Annotated[
        str | None, typer.Option(help="The pipeline's name; by default that of the first input.")
    ] = None,
    bootstrap: Annotated[
        str, typer.Option(envvar="SEQUENCER_BOOTSTRAP_SERVERS", help="Kafka's address.")
    ] = ADDRESS_DEFAULT,
) -> None:
    """Write a first configuration file.

    Lists Kafka's topics if Kafka answers. Creates no topics. Never overwrites a file.

    Exit status: 0 written; 2 wrong input, or there is such a file.

    Example: sequencer init orders.toml --input orders.in
    """
    from streaming.config import at_address, load_config  # noqa: PLC0415  (a quick --help)

    address = at_address(bootstrap)
    given = list(dict.fromkeys(topics or ()))
    named = name or (_name_of(given[0]) if given else "orders")
    inputs = given or [f"{named}.in"]
    pipeline = PIPELINES[discipline].format(input=", ".join(json.dumps(topic) for topic in inputs))
    frame = SERVICE.format(
        file=file,
        name=named,
        quoted=json.dumps(named),
        key=named if BARE.fullmatch(named) else json.dumps(named),
        checkpoint=json.dumps(f"var/{named}"),
        address=json.dumps(bootstrap),
    )
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(frame + pipeline)
    except FileExistsError as error:
        raise ConfigError(
            f"{file} is there already.", "It was not changed.", "Give another name."
        ) from error
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be written: {error.strerror}.",
            "Nothing was changed.",
            "Give another name, or a folder that is there.",
        ) from error
    try:
        load_config(file, {})
    except ConfigError as error:
        file.unlink()
        raise ConfigError(
            error.message, "No file was written.", "Check --name and --input."
        ) from error
    print(f"{file} is written: pipeline {named}, input {', '.join(inputs)}.", file=sys.stderr)
    for line in _topics_of(address, inputs):
        print(line, file=sys.stderr)
    print(
        f"Next: sequencer check {file}; sequencer topics {file} --create; sequencer run {file}",
        file=sys.stderr,
    )


def _name_of(topic: str) -> str:
    return re.sub(r"[._-](in|input)$", "", topic)


def _topics_of(address: Config, inputs: list[str]) -> list[str]:
    """Return sentences about the inputs: which of them Kafka has, and what else there is."""
    from streaming.errors import KafkaUnavailable  # noqa: PLC0415
    from streaming.kafka import connection  # noqa: PLC0415

    where = address.kafka.bootstrap_servers
    try:
        if not connection.is_listening(address):
            return [f"Kafka at {where} does not answer; it was not asked for its topics."]
        there = connection.wait_for_kafka(address).topics
    except KafkaUnavailable as error:
        return [f"{error.message} It was not asked for its topics."]
    missing = [topic for topic in inputs if topic not in there]
    if not missing:
        return []
    names = sorted(topic for topic in there if not topic.startswith("__"))
    shown = ", ".join(names[:SHOWN_MAX]) + (" …" if len(names) > SHOWN_MAX else "")
    return [
        f"Kafka has no topic {', '.join(missing)} yet.",
        f"It has: {shown or 'none'}.",
    ]
