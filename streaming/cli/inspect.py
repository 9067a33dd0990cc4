"""`sequencer inspect`: what a pipeline remembers of its channels, subscribers or peers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from streaming.arrow.key_text import key_from_json, word, word_of
from streaming.cli.asking import ChannelBase64Option, channel_named
from streaming.terminal import printable

ITEMS_SHOWN = 3
TIMES = ("held_since", "active")


def inspect(
    config: Annotated[Path, typer.Argument(help="The service's TOML file.")],
    pipeline: Annotated[
        str, typer.Option("--pipeline", help="Which pipeline; needed if there are several.")
    ] = "",
    channel: Annotated[
        str | None,
        typer.Option("--channel", help="Only this channel, subscriber or peer, and all of it."),
    ] = None,
    channel_base64: ChannelBase64Option = None,
    most: Annotated[
        int,
        typer.Option("--max", min=1, help="Rows of the table; keys that hold messages come first."),
    ] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as JSON.")] = False,
) -> None:
    """Show a pipeline's state, read from its checkpoint.

    Shows the state after the last batch; the service need not run. Channels: the next label, held
    messages and since when, missing and given-up labels. Subscribers: their groups and the messages
    that wait. Peers: their queue, nodes and handles. Spark reads the checkpoint, always on this
    machine; its start takes a quarter of a minute.

    Exit status: 0; 1 there is no state, or no such channel; 2 the configuration cannot work.

    Example: sequencer inspect orders.toml --pipeline trades --channel K1
    """
    from streaming.config import load_config  # noqa: PLC0415  (a quick --help)
    from streaming.disciplines import DISCIPLINES  # noqa: PLC0415
    from streaming.errors import ConfigError, JobFailed  # noqa: PLC0415
    from streaming.service.insight import look  # noqa: PLC0415
    from streaming.spark.session import local, spark_session  # noqa: PLC0415

    wanted = channel_named(channel, channel_base64)
    settings = load_config(config)
    names = settings.named([pipeline] if pipeline else [])
    if len(names) > 1:
        raise ConfigError(
            f"{config} has {len(names)} pipelines.",
            "Nothing was read.",
            f"Say which: --pipeline {' or --pipeline '.join(names)}.",
        )
    discipline = DISCIPLINES[settings.pipelines[names[0]].discipline]
    key_name = discipline.key

    def is_wanted(row: dict[str, Any]) -> bool:
        return wanted is None or key_from_json(row[key_name]) == wanted

    print("reading the checkpoint with Spark …", file=sys.stderr, flush=True)
    with spark_session(local(settings)) as session:
        described = look(session, settings, names[0], is_wanted)
    if wanted is not None and not described:
        raise JobFailed(
            f"Pipeline {names[0]!r} remembers no {key_name} {word(wanted)}.",
            "Nothing was changed.",
            "It sent or got nothing yet, or was idle for retire_after; names are exact.",
        )
    if as_json:
        print(
            json.dumps(
                {"pipeline": names[0], "discipline": discipline.name, f"{key_name}s": described}
            )
        )
    elif wanted is not None:
        _details(described[0], key_name)
    else:
        _table(described, discipline.shown, key_name, most)


def _details(row: dict[str, Any], key_name: str) -> None:
    width = max(map(len, row))
    for name, value in row.items():
        print(f"{name:{width}}  {word_of(value) if name == key_name else _cell(name, value)}")


def _table(rows: list[dict[str, Any]], columns: tuple[str, ...], key_name: str, most: int) -> None:
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from streaming.cli.tables import show, terminal  # noqa: PLC0415

    rows.sort(key=lambda row: -row.get("held", 0))  # discipline `label` holds nothing
    table = Table(box=None, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows[:most]:
        cells = {name: _cell(name, row[name], ITEMS_SHOWN) for name in columns}
        cells[key_name] = word_of(row[key_name])
        table.add_row(*map(Text, cells.values()))
    show(terminal(), table)
    if len(rows) > most:
        print(f"… and {len(rows) - most:,} more: --max, or --json for all", file=sys.stderr)


def _cell(name: str, value: Any, items: int = 1_000_000) -> str:
    """Return a value as a cell: ranges as from…to, long lists cut, nothing unprintable."""
    if value is None:
        return "-"
    if name in TIMES:
        return f"{value[:10]} {value[11:19]}Z"
    if not isinstance(value, list):
        return printable(str(value))
    cells = ["…".join(map(str, item)) if isinstance(item, tuple) else str(item) for item in value]
    more = [f"and {len(cells) - items:,} more"] if len(cells) > items else []
    return printable(", ".join([*cells[:items], *more])) or "-"
