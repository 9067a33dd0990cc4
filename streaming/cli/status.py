"""`sequencer status`: what each pipeline has done, from its checkpoint folder."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

ROWS = (
    "in",
    "delivered",
    "undelivered",
    "notices",
    "rejected",
    "dropped",
    "held",
    "transit",
    "gaps",
    "blocked",
)
TIME = len("2026-01-01T00:00:00")


def status(
    config: Annotated[Path, typer.Argument(help="The service's TOML file.")],
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    blocked: Annotated[
        bool, typer.Option("--blocked", help="Only pipelines in which something waits for a gap.")
    ] = False,
) -> None:
    """Show what the pipelines of CONFIG have done since their checkpoint began.

    Works while the service runs and when it does not; the figures are those of the last batch.
    Counts are of records; "gaps" counts announced gaps, "blocked" the keys with something held,
    "transit" the messages on their way between shards.

    Exit status: 0; 2 the configuration cannot work.

    Example: sequencer status orders.toml --json
    """
    from streaming.config import load_config  # noqa: PLC0415  (a quick --help)

    settings = load_config(config)
    found = {
        name: _figures(settings.service.checkpoint, name, pipeline.discipline)
        for name, pipeline in settings.pipelines.items()
    }
    if blocked:
        found = {name: figures for name, figures in found.items() if figures["blocked"]}
    if as_json:
        print(json.dumps({"pipelines": found}, indent=2))
    else:
        _table(found)


def _figures(root: str, name: str, discipline: str) -> dict[str, Any]:
    from streaming.arrow.totals import Totals  # noqa: PLC0415
    from streaming.disciplines import DISCIPLINES  # noqa: PLC0415
    from streaming.service.checkpoint import Checkpoint  # noqa: PLC0415

    last = Checkpoint(root, name).status()
    totals = asdict(Totals.sum(Totals(**each) for each in last.get("shards", {}).values()))
    return {
        "discipline": discipline,
        "in": totals["seen"],
        "delivered": totals["delivered"],
        "rejected": totals["rejected"],
        "dropped": totals["dropped"],
        "held": totals["held"],
        "gaps": totals["gaps"],
        "blocked": totals["blocked"],
        f"{DISCIPLINES[discipline].key}s": totals["channels"],
        **{name: totals[name] for name in DISCIPLINES[discipline].counted},
        "batch": last.get("batch"),
        "batch_ms": last.get("batch_ms"),
        "at": last.get("at"),
    }


def _table(found: dict[str, dict[str, Any]]) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    from streaming.disciplines import DISCIPLINES  # noqa: PLC0415

    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in found:
        table.add_column(name, justify="right")
    reasons = sorted({reason for figures in found.values() for reason in figures["rejected"]})
    for name in (*ROWS, *(f"{each.key}s" for each in DISCIPLINES.values())):
        each = [figures.get(name) for figures in found.values()]
        if any(n is not None for n in each):
            table.add_row(name, *(_told(n) for n in each))
        if name == "rejected":
            for reason in reasons:
                counts = [figures["rejected"].get(reason, 0) for figures in found.values()]
                table.add_row(f"  {reason}", *(f"{count:,}" for count in counts))
    for name in ("batch", "batch_ms", "at"):
        told = [figures[name] for figures in found.values()]
        table.add_row(name, *("never ran" if one is None else str(one)[:TIME] for one in told))
    Console().print(table)


def _told(number: Any) -> str:
    if number is None:
        return ""
    return f"{sum(number.values()) if isinstance(number, dict) else number:,}"
