"""`sequencer resend`: rejects back to the input, each once."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streaming.cli.asking import PipelineOption
from streaming.errors import ConfigError
from streaming.terminal import printable

if TYPE_CHECKING:
    from streaming.resending.sending import Count

AGAIN_UNLESS = {
    "late": "its label was given up, and stays so unless the channel was reset since",
    "duplicate": "its label was delivered, or is held, unless the channel was reset since",
    "stale-epoch": "a higher epoch took over, unless the channel was reset since",
    "after-fin": "its epoch has ended, unless the channel was reset since",
    "outside-window": "the channel's frontier has to come nearer first",
    "buffer-full": "the channel's buffer has to have room again",
    "reset": "",
    "unknown-group": "the group has to be added first",
    "removed-group": "the group has to be added again first",
    "bad-destination": "the node has to be created first",
    "destroyed-node": "the node has to be created again first",
}
"""What a record needs, or else comes back with the same reason: nothing after a reset. For reasons
that are not named here nothing helps."""


def resend(
    config: Annotated[Path, typer.Argument(help="The service's TOML file.")],
    reason: Annotated[
        list[str] | None,
        typer.Option("--reason", help="Rejects with this reason; may be given often."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            help="Only where this holds: key, timestamp, header('name'), of the input topic, "
            "partition, offset; of channels gap (the event that gave its label up), after (the "
            "delivery before it); =, !=, <, <=, >, >=; may be given often: all must hold.",
        ),
    ] = None,
    pipeline: PipelineOption = None,
    to: Annotated[
        str | None,
        typer.Option("--to", help="Send to this topic instead of the original input."),
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Include records that were sent back before and rejected again."
        ),
    ] = False,
    most: Annotated[
        int | None, typer.Option("--max", help="Send at most this many.", min=1)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Send nothing; show what would be sent.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The counts as JSON.")] = False,
) -> None:
    """Send rejected records back to their input, each once.

    The record is unchanged (key, value, own headers, timestamp) and goes to the same partition; the
    reject stays in its topic. Each transaction also notes in the topic REJECTS.resent what it sent,
    so the command can be run repeatedly, concurrently, or again after a crash. Without --reason it
    only shows a table.

    A record that is sent back is judged like any other, so remove the cause first. A late label
    stays late unless its channel is reset; --to sends such records to another topic.

    Exit status: 0 done; 1 Kafka did not take all (what was sent is noted; run it again); 2 wrong
    input.

    Example: sequencer resend orders.toml --reason buffer-full --where "key = IBM" --dry-run
    """
    from streaming import crashes  # noqa: PLC0415  (a quick --help)
    from streaming.cli.asking import load_pipeline  # noqa: PLC0415
    from streaming.disciplines import DISCIPLINES  # noqa: PLC0415
    from streaming.resending.choice import Choice  # noqa: PLC0415
    from streaming.resending.sending import Resending  # noqa: PLC0415

    crashes.arm()
    settings, name = load_pipeline(config, pipeline)
    _require_reasons(reason or (), DISCIPLINES[settings.pipelines[name].discipline].reasons)
    choice = Choice.of(reason or (), where or (), to=to, again=again, most=most)
    dry = dry_run or not reason
    counts = Resending(settings, name, choice, _tell).run(dry=dry)
    if as_json:
        print(json.dumps({each: asdict(count) for each, count in counts.items()}))
        return
    _show(counts, dry=dry)
    if to is None:
        _tell_what_comes_back(counts, choice.reasons)
    if unknown := choice.reasons - counts.keys():
        _tell(f"no reject has the reason {', '.join(sorted(unknown))}")


def _require_reasons(given: Sequence[str], known: Sequence[str]) -> None:
    """Refuse a word that is not a reason of the pipeline's discipline."""
    for word in given:
        if word not in known:
            near = difflib.get_close_matches(word, known, 1)
            raise ConfigError(
                f"--reason {word}: no record of this pipeline is rejected for that.",
                "Nothing was sent.",
                f"Did you mean {near[0]}?" if near else f"Reasons are {', '.join(known)}.",
            )


def _tell(what: str) -> None:
    print(printable(what), file=sys.stderr, flush=True)


def _tell_what_comes_back(counts: Mapping[str, Count], chosen: Collection[str]) -> None:
    for each in [each for each, count in counts.items() if count.sent and each in chosen]:
        if unless := AGAIN_UNLESS.get(each, "nothing about the record has changed"):
            _tell(f"{each}: it comes back as a reject where its cause holds still ({unless})")


def _show(counts: dict[str, Count], *, dry: bool) -> None:
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from streaming.cli.tables import show, terminal  # noqa: PLC0415

    table = Table(box=None, pad_edge=False)
    table.add_column("reason")
    for head in ("rejects", "chosen", "would send" if dry else "sent", "sent before", "came back"):
        table.add_column(head, justify="right")
    for reason, count in counts.items():
        numbers = (count.rejects, count.chosen, count.sent, count.before, count.came_back)
        table.add_row(Text(printable(reason)), *(f"{number:,}" for number in numbers))
    show(terminal(), table)
