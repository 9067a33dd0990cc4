"""What `send` and `tail` share: where Kafka is, its topics, and bytes in JSON."""

from __future__ import annotations

import base64
import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from streaming.errors import ConfigError

if TYPE_CHECKING:
    from streaming.config import Config

SECONDS_MAX = 30
ADDRESS_DEFAULT = "localhost:9092"

ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="Take address and security from this TOML file.")
]
BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        envvar="SEQUENCER_BOOTSTRAP_SERVERS",
        help=f"Kafka's address; by default that of --config, or {ADDRESS_DEFAULT}.",
    ),
]


def connect(config: Path | None, bootstrap: str | None) -> tuple[Config, dict[str, int]]:
    """Where Kafka is, and the partitions of each of its topics. Raises KafkaUnavailable."""
    from streaming.config import at_address, load_config  # noqa: PLC0415
    from streaming.config.load import BOOTSTRAP  # noqa: PLC0415
    from streaming.kafka import connection  # noqa: PLC0415  (a quick --help)

    if config is None:
        settings = at_address(bootstrap or ADDRESS_DEFAULT)
    else:
        overrides = {BOOTSTRAP: bootstrap} if bootstrap else {}
        settings = load_config(config, {**os.environ, **overrides})
    cluster = connection.wait_for_kafka(settings)
    return settings, cluster.topics


def no_topic(names: list[str]) -> ConfigError:
    """The error about topics that Kafka does not have."""
    return ConfigError(
        f"Kafka has no topic {', '.join(names)}.",
        "Nothing was done.",
        "Check the name; those of a configuration are created by: sequencer topics CONFIG --create",
    )


def end_output(stream: IO[str] | None = None) -> None:
    """Let nothing more go to a stream, by default standard output.

    Its reader has enough (`sequencer tail … | head`), or its disk is full. Python would flush what
    is left at its end, and complain.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), (stream or sys.stdout).fileno())


def to_json(data: bytes | None) -> Any:
    """Bytes as JSON has them: text, null, or ``{"base64": …}`` where they are no UTF-8."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def from_json(value: Any) -> bytes | None:
    """The bytes of :func:`to_json`; other values are their JSON text. ValueError where wrong."""
    import json  # noqa: PLC0415

    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return base64.b64decode(str(value["base64"]), validate=True)
    return json.dumps(value).encode()
