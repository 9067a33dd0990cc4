"""`sequencer check`: is the configuration sound?"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streaming.terminal import printable

if TYPE_CHECKING:
    from streaming.config import Config

ROOM_BYTES_MIN = 2**30
"""With less room on the checkpoint's disk a service may soon stand still."""


def check(
    config: Annotated[Path, typer.Argument(help="The service's TOML file.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="How it was understood, as JSON.")
    ] = False,
    ask_rights: Annotated[
        bool,
        typer.Option("--rights", help="Also check with Kafka that this user has all rights."),
    ] = False,
) -> None:
    """Check CONFIG without Spark; show how it was understood.

    Every fault of the file is named with its key, what is wrong and what to write instead; then
    those of the checkpoint's kind of storage, of credentials and certificates. Functions of custom
    labels are imported and tried. For SQL expressions it checks quotes, brackets, header('…') calls
    and bare names; Spark checks the rest before any pipeline starts. Secrets are not shown.

    If Kafka answers, it compares the settings of existing topics: outputs and rejects have to take
    the records that inputs take (sizes, timestamps). Without --rights Kafka need not answer, nor
    need the schema registry. If the checkpoint is a folder, it says where this user cannot write to
    it, and where its disk has less than 1 GiB left.

    Exit status: 0 it can work; 1 the checkpoint's storage cannot be used, or (with --rights) Kafka
    does not answer, or this user lacks rights; 2 it cannot work.

    Example: sequencer check orders.toml
    """
    from streaming.config import load_config  # noqa: PLC0415
    from streaming.config.flow import label_remarks  # noqa: PLC0415
    from streaming.config.kafka_properties import passed_over  # noqa: PLC0415
    from streaming.kafka import connection, rights  # noqa: PLC0415  (a quick --help)
    from streaming.storage.files import Files  # noqa: PLC0415

    settings = load_config(config)
    settings.check()
    Files(settings.service.checkpoint, settings.spark)  # ConfigError for a kind that cannot be used
    connection.validate(settings)
    if ask_rights:
        connection.wait_for_kafka(settings)
        rights.require(settings, settings.pipelines)
    _compare_topics(settings)
    _ask_registry(settings)
    whole = understood(settings)
    if as_json:
        print(json.dumps(whole, indent=2))
    else:
        _show(whole)
    said = [*passed_over(settings.kafka.properties), *label_remarks(settings.pipelines)]
    for line in [*said, *checkpoint_remarks(settings)]:
        print(line, file=sys.stderr)
    print(f"{config} can work.", file=sys.stderr)


def checkpoint_remarks(settings: Config) -> list[str]:
    """What would keep this user from writing the checkpoint, where it is a folder here."""
    from streaming.storage.files import folder_of  # noqa: PLC0415

    root = folder_of(settings.service.checkpoint)
    if not root:
        return []
    wanted = [Path(root, name) for name in settings.pipelines]
    existing = (
        [each for each in (path, *path.parents) if os.access(each, os.F_OK)] for path in wanted
    )
    there = {each[0] for each in existing}
    barred = [each for each in there if not (each.is_dir() and os.access(each, os.W_OK | os.X_OK))]
    said = f"The checkpoint {root}:"
    lines = [f"{said} this user cannot write to {path}." for path in sorted(barred)]
    free = min((shutil.disk_usage(path).free for path in there), default=ROOM_BYTES_MIN)
    if free < ROOM_BYTES_MIN:
        lines.append(f"{said} its disk has room for {free / 2**20:,.0f} MiB more.")
    return lines


def _compare_topics(settings: Config) -> None:
    from streaming.errors import KafkaUnavailable  # noqa: PLC0415
    from streaming.kafka import connection, limits  # noqa: PLC0415

    why = f"Kafka at {settings.kafka.bootstrap_servers} does not answer."
    try:
        if connection.is_listening(settings):
            connection.wait_for_kafka(settings)
            limits.require(settings, settings.pipelines)
            for line in limits.remarks(settings, settings.pipelines):
                print(line, file=sys.stderr)
            return
    except KafkaUnavailable as error:
        why = error.message
    print(f"{why} The settings of its topics were not compared.", file=sys.stderr)


def _ask_registry(settings: Config) -> None:
    """Say where the schema registry that pipelines need does not answer."""
    from streaming.errors import RegistryUnavailable  # noqa: PLC0415
    from streaming.kafka.registry import Registry  # noqa: PLC0415

    if not any(each.needs_registry for each in settings.pipelines.values()):
        return
    registry = Registry.of(settings)
    try:
        registry.is_there()
    except RegistryUnavailable as error:
        print(f"{error.message} A running pipeline waits for it.", file=sys.stderr)
    finally:
        registry.close()


def understood(settings: Config) -> dict[str, Any]:
    """The whole configuration with its defaults, without secrets."""
    from streaming.config.kafka_properties import without_effect  # noqa: PLC0415
    from streaming.config.properties import secret_names  # noqa: PLC0415

    secret = secret_names(settings.spark, settings.secrets)
    pipelines = {}
    for name, pipeline in settings.pipelines.items():
        with settings.faults_of(name):
            pipelines[name] = pipeline.understood()
    return {
        "service": settings.service.model_dump(mode="json"),
        "kafka": {
            "bootstrap_servers": settings.kafka.bootstrap_servers,
            "properties": sorted(settings.kafka.properties),  # names only: values may be secret
            "without_effect": without_effect(settings.kafka.properties),
            "schema_registry": settings.kafka.schema_registry,
            "schema_registry_properties": sorted(settings.kafka.schema_registry_properties),
        },
        "spark": {
            name: "***" if name in secret else value for name, value in settings.spark.items()
        },
        "pipelines": pipelines,
    }


def _show(found: dict[str, Any]) -> None:
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from streaming.cli.tables import show, terminal  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, show_header=False)
    tables = {name: found[name] for name in ("service", "kafka", "spark")}
    tables |= {f"pipelines.{name}": each for name, each in found["pipelines"].items()}
    for name, values in tables.items():
        if values:
            table.add_row(Text(f"[{name}]", style="bold"))
        for key, value in values.items():
            if value not in (None, [], {}, ""):
                cells = printable(f"  {key}"), printable(_shown(value))
                table.add_row(*(Text(cell, overflow="fold") for cell in cells))
    show(terminal(), table)


def _shown(value: Any) -> str:
    """A value nearly as TOML has it, without quotes."""
    if isinstance(value, dict):
        inner = (f"{key} = {_shown(each)}" for key, each in value.items() if each is not None)
        return "{ " + ", ".join(inner) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, str):
        return value
    return json.dumps(value)
