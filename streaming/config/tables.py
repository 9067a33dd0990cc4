"""The tables of the configuration file that all pipelines share, as pydantic models."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, field_validator

from streaming.settings.table import Number, Table
from streaming.settings.values import Duration, Name, PositiveDuration, Printable, Span, Text

SHARDS_MAX = 1024
HOST = re.compile(r"\[[0-9A-Fa-f:.%\w]+\]|[^\s:/\[\]]+")
"""A name or an address, of IPv6 in brackets."""
REGISTRY = re.compile(r"https?://[^\s/@?#,]+(/[^\s@?#,]*)?")


def hidden_user(address: str) -> str:
    """Return an address without the user and password in it."""
    return re.sub(r"//[^/]*@", "//***@", address)


class Service(Table):
    """`[service]`: what all pipelines share."""

    name: Name = "sequencer"
    checkpoint: Text = "var/checkpoints"
    trigger: Duration = Span(100)
    shards: Annotated[Number, Field(ge=1, le=SHARDS_MAX)] | None = None
    state_partitions: Annotated[Number, Field(ge=1, le=SHARDS_MAX)] | None = None
    batch_records_max: Annotated[Number, Field(ge=1, le=5_000_000)] | None = None
    batch_bytes_max: Annotated[Number, Field(ge=1_000_000, le=10_000_000_000)] = 200_000_000
    delivery: Literal["exactly-once", "at-least-once"] = "exactly-once"
    sync: Annotated[bool, Field(strict=True)] = True
    create_topics: Annotated[bool, Field(strict=True)] = True
    header_prefix: Annotated[Printable, Field(max_length=100)] = ""
    metrics: str = ""
    transit_kept: Duration = Span(0)
    hung_after: PositiveDuration = Span(15 * 60_000)

    @field_validator("metrics")
    @classmethod
    def _address(cls, value: str) -> str:
        host, _, port = value.rpartition(":")
        is_port = re.fullmatch("[0-9]{1,5}", port) and int(port) < 2**16
        if value and not (HOST.fullmatch(host) and is_port):
            raise ValueError(f'{value!r} is not an address; write host:port, "127.0.0.1:9404"')
        return value


class Kafka(Table):
    """`[kafka]`: where Kafka is and how to reach it. Properties may hold secrets: never shown."""

    bootstrap_servers: Text = "localhost:9092"
    properties: dict[str, str] = Field(default_factory=dict, repr=False)
    schema_registry: str = ""
    schema_registry_properties: dict[str, str] = Field(default_factory=dict, repr=False)

    @field_validator("schema_registry")
    @classmethod
    def _registries(cls, value: str) -> str:
        for address in value.split(",") if value else ():
            if not REGISTRY.fullmatch(address.strip()):
                raise ValueError(
                    f'{hidden_user(address)!r} is not an address of a registry; write "http://host:8081"'
                    " or https, a user as schema_registry_properties"
                )
        return value

    @field_validator("bootstrap_servers")
    @classmethod
    def _addresses(cls, value: str) -> str:
        addresses = [address.strip() for address in value.split(",")]
        for address in addresses:
            host, _, port = address.rpartition(":")
            if not HOST.fullmatch(host):
                raise ValueError(
                    f'{address!r} is not an address; write host:port, "localhost:9092"'
                )
            if not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 2**16:
                raise ValueError(f"{address!r} has no port in 1 … 65535; write host:port")
        return ",".join(addresses)
