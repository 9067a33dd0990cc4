"""`sequencer replay`: recorded input once more, with other settings."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streaming.errors import ConfigError

if TYPE_CHECKING:
    from streaming.replay.stepping import Replay

AS_IT_IS, AS_SET = "as it is", "as set"


def replay(
    config: Annotated[Path, typer.Argument(help="The service's TOML file.")],
    sets: Annotated[
        list[str],
        typer.Option("--set", help="KEY=VALUE of the pipeline's table; may be given often."),
    ],
    pipeline: Annotated[
        str | None,
        typer.Option("--pipeline", help="Which channel pipeline; needed if there are several."),
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option("--prefix", help="Prefix of the names of the topics that are written."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run recorded input through other settings and compare.

    The input is read once, from its beginning to its current end, and passes twice through the
    service's own step: with the settings of CONFIG, and with --set. The clock is the records'
    timestamps. The results of the changed settings go to separate topics (PREFIX with out, rejects,
    events). The service, its checkpoint and its topics are not touched. Operators' commands are
    applied at their timestamps. Spark starts only if channel or label is an SQL expression.

    If the policy is "wait", setting gap.after changes it to "skip".

    Exit status: 0; 1 Kafka does not answer; 2 the settings cannot work.

    Example: sequencer replay orders.toml --set gap.after=2s
    """
    from streaming.cli.asking import load_pipeline  # noqa: PLC0415  (a quick --help)
    from streaming.kafka import topics  # noqa: PLC0415
    from streaming.replay import stepping as replaying  # noqa: PLC0415

    settings, name = load_pipeline(config, pipeline, "channel")
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")  # two may begin within a second
    begin = prefix or f"{name}.replay-{stamp}."
    other = replaying.changed(config, name, _pairs(sets), begin, os.environ)
    before = replaying.Replay(replaying.plan_of(settings, name, writes=False), writes=False)
    replaying.plan_of(other, name, writes=False)  # refused before topics are made
    there = topics.existing(settings)
    used = [each for each in other.pipelines[name].written.values() if each in there]
    if used:
        raise ConfigError(
            f"{', '.join(used)}: such topics are there already.",
            "Nothing was read.",
            "Give another --prefix.",
        )
    topics.create(other, inputs=False, commands=False)
    after = replaying.Replay(replaying.plan_of(other, name, writes=True), writes=True)
    every_ms = settings.service.trigger.ms
    count = replaying.run(settings, [before, after], every_ms)
    figures = {AS_IT_IS: _figures(before), AS_SET: _figures(after)}
    written = other.pipelines[name].written
    if as_json:
        print(json.dumps({"read": count, "topics": written, **figures}))
        return
    _show(figures)
    print(f"written: {', '.join(written.values())}", file=sys.stderr)


def _pairs(sets: list[str]) -> dict[str, str]:
    pairs = dict(each.partition("=")[::2] for each in sets)
    wrong = [each for each in sets if "=" not in each or each.startswith("=")]
    if wrong:
        raise ConfigError(
            f"--set {wrong[0]} is not KEY=VALUE.",
            "Nothing was read.",
            "Write for instance --set gap.after=2s.",
        )
    return {key.strip(): value.strip() for key, value in pairs.items()}


def _figures(replay: Replay) -> dict[str, Any]:
    from streaming.arrow.histograms import WAITED_MS, quantile  # noqa: PLC0415

    totals = replay.totals
    waited = totals.histograms.get(WAITED_MS, [])
    return {
        "in": totals.seen,
        "delivered": totals.delivered,
        "rejected": dict(sorted(totals.rejected.items())),
        "late": totals.rejected.get("late", 0),
        "dropped": totals.dropped,
        "gaps": totals.gaps,
        "held": totals.held,
        "blocked": totals.blocked,
        "had_waited": sum(waited[:-1]),
        "waited_p50_ms": quantile(WAITED_MS, waited, 0.5),
        "waited_p99_ms": quantile(WAITED_MS, waited, 0.99),
    }


def _show(figures: dict[str, dict[str, Any]]) -> None:
    from rich.table import Table  # noqa: PLC0415

    from streaming.cli.tables import show, terminal  # noqa: PLC0415

    table = Table(box=None, pad_edge=False)
    for column in ("", *figures, "difference"):
        table.add_column(column, justify="right" if column else "left")
    reasons = sorted({reason for each in figures.values() for reason in each["rejected"]})
    before, after = (_flat(each, reasons) for each in figures.values())
    for name in before:
        pair = (before[name], after[name])
        shown = ["more" if each is None else f"{each:,}" for each in pair]
        change = "" if None in pair or pair[0] == pair[1] else f"{pair[1] - pair[0]:+,}"
        table.add_row(name, *shown, change)
    show(terminal(), table)


def _flat(figures: dict[str, Any], reasons: list[str]) -> dict[str, Any]:
    """The figures by what their lines are called; the reasons behind what was delivered."""
    lines: dict[str, Any] = {}
    for name, figure in figures.items():
        if name == "rejected":
            lines |= {f"rejected: {reason}": figure.get(reason, 0) for reason in reasons}
        elif name != "late":  # it is a reason
            lines[name] = figure
    return lines
