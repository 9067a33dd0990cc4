"""Who waits for what (`sequencer status --blocked`): by reports of batches, or by the state."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from streaming.terminal import printable

if TYPE_CHECKING:
    from rich.console import Console

    from streaming.config import Config
    from streaming.disciplines.discipline import Described

SHOWN_MAX = 50
READ_MAX = 100_000
"""Channels that are listed where nobody says how many: a row of JSON takes 1 KB of memory."""
SECONDS = len("2026-01-01T00:00:00")


def who_waits(config: Config, blocked: Mapping[str, int], most: int) -> dict[str, Described]:
    """Return the channels of each pipeline that wait, the ``most`` longest, longest first.

    ``blocked``: how many wait. Batches report some of each shard (`listed_in`); where these are not
    enough to know the longest, Spark reads the state.
    """
    from streaming.disciplines import DISCIPLINES  # noqa: PLC0415  (a quick --help)
    from streaming.disciplines.discipline import listed_in  # noqa: PLC0415
    from streaming.service.checkpoint import Checkpoint  # noqa: PLC0415
    from streaming.service.move_checks import require_as_it_ran  # noqa: PLC0415

    found, unknown = {}, []
    for name, count in blocked.items():
        settings = config.pipelines[name]
        discipline = DISCIPLINES[settings.discipline]
        with config.faults_of(name):
            checkpoint = Checkpoint.of(config, name)
            texts = checkpoint.waiting().values()
            if texts and checkpoint.identity() is not None:
                require_as_it_ran(config, checkpoint, reads=False)
            listed = listed_in(texts) if discipline.all_waiting else most
            reported = discipline.waiting(settings, texts, None if most > listed else most)
        found[name] = reported[:most]
        if most > listed and listed <= len(reported) < count:
            unknown.append(name)
    if unknown:
        found |= _from_state(config, unknown, most)
    return found


def _from_state(config: Config, names: list[str], most: int) -> dict[str, Described]:
    from streaming.service.insight import who_waits  # noqa: PLC0415  (most calls need no Spark)
    from streaming.spark.session import local, spark_session  # noqa: PLC0415

    print("reading the checkpoint with Spark …", file=sys.stderr, flush=True)
    with spark_session(local(config)) as session:
        return {name: who_waits(session, config, name, most) for name in names}


def short_utc(at: str) -> str:
    """Return an RFC 3339 time without its fraction of a second."""
    return at[:SECONDS] + "Z"


def list_waiting(console: Console, found: dict[str, dict[str, Any]]) -> None:
    """Print a table for each pipeline in which a channel, subscriber or peer waits."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from streaming.arrow.key_text import word_of  # noqa: PLC0415
    from streaming.cli.tables import show  # noqa: PLC0415
    from streaming.disciplines import DISCIPLINES  # noqa: PLC0415

    now = time.time()
    for name, figures in found.items():
        waiting = figures["waiting"]
        asks = any("asked" in each for each in waiting)
        counts = ["blocked", "held", *(["asked", "answered"] if asks else [])]
        counted = ", ".join(f"{figures[count]:,} {count}" for count in counts)
        console.print(f"{name}: {counted}, {figures['age_seconds']:,.0f} s ago")
        table = Table(box=None, pad_edge=False)
        ruled = any("rule" in each for each in waiting)
        discipline = DISCIPLINES[figures["discipline"]]
        key, epochs = discipline.key, any("epoch" in each for each in waiting)
        columns = [key, "waits for", *(["epoch"] if epochs else []), "held", "since", "waited"]
        columns += [*(["asked", "asks next"] if asks else []), *(["rule"] if ruled else [])]
        for column in columns:
            is_text = column in (key, "rule")
            table.add_column(column, justify="left" if is_text else "right")
        for each in waiting:
            waited = now - datetime.fromisoformat(each["since"]).timestamp()
            table.add_row(
                Text(word_of(each[key]), overflow="fold"),
                "its start" if each["next"] is None else printable(str(each["next"])),
                *([str(each["epoch"])] if epochs else []),
                f"{each['held']:,}",
                short_utc(each["since"]),
                f"{max(0, waited):,.0f} s",
                *(_asked(each) if asks else []),
                *([printable(each["rule"] or "-")] if ruled else []),
            )
        if waiting:
            show(console, table)
        elif figures["blocked"]:
            console.print(f"who waits is listed by: sequencer inspect CONFIG --pipeline {name}")
        if waiting and len(waiting) < figures["blocked"]:
            more = figures["blocked"] - len(waiting)
            others = ": --max, or --json for all" if discipline.all_waiting else ""
            console.print(f"… and {more:,} more{others}")
    if not found:
        console.print("nothing waits")


def _asked(waiting: dict[str, Any]) -> tuple[str, str]:
    """How often a channel's labels were asked for, and when they are next."""
    following = waiting["ask_next"]
    return f"{waiting['asked']}", "not again" if following is None else short_utc(following)
