"""`sequencer status`: what each pipeline has done, from its checkpoint folder."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streaming.cli.blocked import READ_MAX, SHOWN_MAX, list_waiting, short_utc, who_waits
from streaming.cli.watching import History
from streaming.errors import ConfigError
from streaming.terminal import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from streaming.config import Config
    from streaming.kafka.lag import Lag
    from streaming.service.checkpoint import Checkpoint

ROWS = (
    "in",
    "delivered",
    "passed",
    "undelivered",
    "notices",
    "commands",
    "rejected",
    "dropped",
    "held",
    "transit",
    "gaps",
    "asked",
    "answered",
    "blocked",
    "lag",
    "lag_seconds",
)
HELD_FIELDS = ("running", "pid", "host", "since")
OVERLAPS_SHOWN = 10
WATCH_SECONDS = 2


def status(
    config: Annotated[Path, typer.Argument(help="The service's TOML file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    blocked: Annotated[
        bool,
        typer.Option("--blocked", help="List what waits, for what and since when, longest first."),
    ] = False,
    most: Annotated[
        int | None,
        typer.Option(
            "--max",
            min=1,
            help=f"List at most this many; {SHOWN_MAX} by default, with --json {READ_MAX:,}.",
        ),
    ] = None,
    lag: Annotated[
        bool, typer.Option("--lag", help="Ask Kafka how many messages are unread.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help=f"Repeat every {WATCH_SECONDS} s, until Ctrl-C.")
    ] = False,
) -> None:
    """Show what the pipelines of CONFIG have done.

    Totals count from the beginning of the checkpoint.

    The service need not run. The output says whether it runs, and its last message. The figures are
    those of the last batch; "age" is how old they are. All times are UTC.

    Counts are of records; "gaps" counts announced gaps, "blocked" the keys with something held,
    "transit" the messages on their way between shards, "lag" the messages of inputs and commands
    that are still in Kafka (a little more where senders use transactions), "lag_seconds" the time
    between the first of these and the newest, by their timestamps.

    With --watch: also each pipeline's deliveries per second and held messages since the watch
    began.

    With --blocked: each channel that waits, the label that it waits for, how much it holds, since
    when, and how often the sender was asked. To release one: sequencer skip CONFIG --channel K.
    Batches report the 1,000 longest waits of each shard. If --max or --json asks for more, Spark
    reads them from the checkpoint (a quarter of a minute). For groups on a network it lists
    subscribers (and the message of a group or overlap that comes next), for multicasts by clocks or
    the counter peers (and whose message they wait for): the 200 longest waits of each shard. These
    end by themselves.

    Exit status: 0; 1 Kafka does not answer (--lag); 2 the configuration cannot work.

    Example: sequencer status orders.toml --blocked
    """
    from streaming.config import load_config  # noqa: PLC0415  (a quick --help)
    from streaming.disciplines.discipline import LISTED_MAX  # noqa: PLC0415

    if watch and as_json:
        raise ConfigError(
            "--watch is for people, --json for programs.", "Nothing was read.", "Give one of them."
        )
    if watch and most is not None and most > LISTED_MAX:
        raise ConfigError(
            f"--watch shows {LISTED_MAX:,} channels at most.",
            "Nothing was read.",
            f"Give --max {LISTED_MAX} or less, or leave --watch out.",
        )
    settings, history = load_config(config), History() if watch else None
    while True:
        _show(settings, history, as_json=as_json, blocked=blocked, most=most, lag=lag)
        if not watch:
            return
        time.sleep(WATCH_SECONDS)


def _show(
    config: Config,
    history: History | None,
    *,
    as_json: bool,
    blocked: bool,
    most: int | None,
    lag: bool,
) -> None:
    from streaming.cli.tables import terminal  # noqa: PLC0415

    found = {name: _figures(config, name, lag=lag) for name in config.pipelines}
    if blocked:
        most = most or (READ_MAX if as_json else SHOWN_MAX)
        lists = who_waits(config, {name: each["blocked"] for name, each in found.items()}, most)
        for name, rows in lists.items():
            found[name]["waiting"] = rows
    if as_json:
        print(json.dumps({"pipelines": found}, indent=2))
        return
    console = terminal()
    if history is not None:
        console.clear()
        history.note(time.monotonic(), found)
    _say_running(console, found)
    for name, figures in found.items():
        if figures["waits_for"]:
            console.print(
                f"{name} waits for {figures['waits_for']}.", highlight=False, markup=False
            )
    if blocked:
        list_waiting(console, {name: each for name, each in found.items() if each["blocked"]})
    else:
        _table(console, found)
    for line in history.lines() if history is not None else ():
        console.print(printable(line), highlight=False, markup=False, soft_wrap=True)


def _say_running(console: Console, found: dict[str, dict[str, Any]]) -> None:
    """Say for the service, or for each pipeline where they differ, whether a process runs it."""
    sentences = {name: _running(figures) for name, figures in found.items()}
    if len({*sentences.values()}) == 1:
        sentences = {"The service": next(iter(sentences.values()))}
    for name, sentence in sentences.items():
        console.print(
            printable(f"{name} {sentence}"), highlight=False, markup=False, soft_wrap=True
        )


def _running(figures: dict[str, Any]) -> str:
    process = f"process {figures['pid']} on {figures['host']}, since {figures['since']}"
    if figures["running"]:
        return f"runs ({process})." if figures["pid"] else "runs."
    said = figures["said"]
    if figures["running"] is False:
        ended = "does not run; the figures are those of its last batch."
        return f"{ended} It said last, at {said['at']}: {said['text']}" if said else ended
    if figures["pid"]:
        return f"may run: {process}, did not stop in order since."
    return "has not run on this checkpoint, as far as can be seen from here."


def _figures(config: Config, name: str, *, lag: bool) -> dict[str, Any]:
    from streaming.arrow.totals import Totals  # noqa: PLC0415
    from streaming.disciplines import DISCIPLINES  # noqa: PLC0415
    from streaming.service.checkpoint import Checkpoint  # noqa: PLC0415

    pipeline = config.pipelines[name]
    discipline = DISCIPLINES[pipeline.discipline]
    checkpoint = Checkpoint.of(config, name)
    last = checkpoint.status()
    totals = asdict(Totals.sum(Totals(**each) for each in last.get("shards", {}).values()))
    more: dict[str, Any] = {}
    if lag:
        behind = _lag(config, name, checkpoint.read_up_to())
        more |= {"lag": behind.records, "lag_seconds": behind.seconds}
    return {
        "discipline": pipeline.discipline,
        "in": totals["seen"],
        "delivered": totals["delivered"],
        "rejected": totals["rejected"],
        "dropped": totals["dropped"],
        "held": totals["held"],
        "gaps": totals["gaps"],
        "blocked": totals["blocked"],
        f"{discipline.key}s": totals["channels"],
        **{name: totals[name] for name in discipline.counted},
        "waits_for": last.get("waits_for") or None,
        "batch": last.get("batch"),
        "batch_ms": last.get("batch_ms"),
        "at": last.get("at"),
        "age_seconds": _age(last.get("at")),
        **_held_by(checkpoint),
        **more,
    }


def _held_by(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return whether a process works on a checkpoint (None: nobody can tell), and which.

    Also what such a process said last.
    """
    is_running, holder = checkpoint.holder()
    shown = holder and is_running is not False
    fields = {name: getattr(holder, name) for name in HELD_FIELDS[1:]} if shown else {}
    said = checkpoint.last_said.read()
    known = {"running": is_running, "said": None if said is None else asdict(said)}
    return dict.fromkeys(HELD_FIELDS) | known | fields


def _age(at: str | None) -> float | None:
    """Return how many seconds ago a time was."""
    if at is None:
        return None
    return round(max(0.0, time.time() - datetime.fromisoformat(at).timestamp()), 3)


def _lag(config: Config, name: str, read: dict[str, dict[str, int]]) -> Lag:
    """Of inputs and commands behind what batches have read."""
    from streaming.kafka.lag import LagReader  # noqa: PLC0415

    pipeline = config.pipelines[name]
    reader = LagReader(config, (*pipeline.input, pipeline.commands))
    try:
        return reader(read)
    finally:
        reader.close()


def _table(console: Console, found: dict[str, dict[str, Any]]) -> None:
    from rich.table import Table  # noqa: PLC0415

    from streaming.cli.tables import show  # noqa: PLC0415
    from streaming.disciplines import DISCIPLINES  # noqa: PLC0415

    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in found:
        table.add_column(name, justify="right")
    reasons = sorted({reason for figures in found.values() for reason in figures["rejected"]})
    for name in dict.fromkeys((*ROWS, *(f"{each.key}s" for each in DISCIPLINES.values()))):
        each = [figures.get(name) for figures in found.values()]
        if any(n is not None for n in each):
            table.add_row(name, *(_shown(n) for n in each))
        if name == "rejected":
            for reason in reasons:
                counts = [figures["rejected"].get(reason, 0) for figures in found.values()]
                table.add_row(f"  {reason}", *(f"{count:,}" for count in counts))
    _overlaps(table, found)
    for name, shown in (("batch", str), ("batch_ms", str), ("at", short_utc), ("age", _ago)):
        values = [figures["age_seconds" if name == "age" else name] for figures in found.values()]
        table.add_row(name, *("never ran" if one is None else shown(one) for one in values))
    show(console, table)


def _overlaps(table: Table, found: dict[str, dict[str, Any]]) -> None:
    """Put rows for the first overlaps of groups, each with its next number, into the table."""
    numbers = {
        name: {f"  {one} + {other}": number for one, other, number in figures.get("overlaps", ())}
        for name, figures in found.items()
    }
    named = dict.fromkeys(pair for each in numbers.values() for pair in each)
    for index, pair in enumerate(list(named)[:OVERLAPS_SHOWN]):
        if not index:
            table.add_row("overlaps (next number)", *("" for _ in found))
        table.add_row(printable(pair), *(_shown(each.get(pair)) for each in numbers.values()))


def _ago(seconds: float) -> str:
    return f"{seconds:,.0f} s"


def _shown(number: Any) -> str:
    if number is None:
        return ""
    return f"{sum(number.values()) if isinstance(number, dict) else number:,}"
