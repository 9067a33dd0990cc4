"""`sequencer advise`: which gap time and buffer fit the disorder that there was."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streaming.cli.pictures import write_picture
from streaming.errors import ConfigError

if TYPE_CHECKING:
    from streaming.arrow.totals import Totals
    from streaming.config import Config
    from streaming.graph.histograms import Histogram
    from streaming.replay.advice import Advice


def advise(
    config: Annotated[Path, typer.Argument(help="The service's TOML file.")],
    share: Annotated[
        float,
        typer.Option(
            "--share", help="Give up fewer than this share of the messages.", min=0, max=1
        ),
    ] = 0.001,
    pipeline: Annotated[
        list[str] | None, typer.Option("--pipeline", help="Only this one; may be given often.")
    ] = None,
    measure: Annotated[
        bool,
        typer.Option("--measure", help="Read the inputs again, and measure."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.svg", help="Draw the histograms there, too."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Advise a gap time and a buffer for each channel pipeline.

    With these settings, fewer than a chosen share of messages would have been given up.

    While they run, channel pipelines measure how far a message's label lies below the highest of
    its channel, and how long others had waited for it. Their measurements since the checkpoint
    began are read from the checkpoint. With --measure the inputs are read instead, and the clock is
    their records' timestamps. Nothing is written, and the service need not run.

    Histograms show how late messages came and how far out of order; an arrow marks the bucket of
    the current setting. With -o also as a picture.

    Try the advice on recorded input: sequencer replay CONFIG --set gap.after=5s.

    Exit status: 0; 1 Kafka does not answer (--measure); 2 the configuration cannot work, or nothing
    was measured.

    Example: sequencer advise orders.toml --share 0.0001
    """
    from streaming.config import load_config  # noqa: PLC0415  (a quick --help)
    from streaming.graph.histograms import as_svg, as_text  # noqa: PLC0415
    from streaming.replay.advice import advise as advise_from  # noqa: PLC0415

    settings = load_config(config)
    names = [
        name
        for name in settings.named(pipeline or [])
        if settings.pipelines[name].discipline == "channel"
    ]
    read = _measured if measure else _kept
    totals = {name: read(settings, name) for name in names}
    advised = {name: advise_from(totals[name], share) for name in names}
    if not any(advice.messages for advice in advised.values()):
        raise ConfigError(
            "Nothing was measured: no channel pipeline has taken a message"
            + (" from its input." if measure else " since its checkpoint began."),
            "Nothing was changed.",
            "" if measure else "Let it run, or read the inputs themselves with --measure.",
        )
    if as_json:
        print(json.dumps({"pipelines": {name: asdict(advice) for name, advice in advised.items()}}))
        return
    for name, advice in advised.items():
        _tell(name, settings, advice, share, measured=measure)
        for shown in _histograms(settings, name, totals[name]):
            print("\n".join([f"  {shown.title}:", *as_text(shown)]))
    if output is not None:
        drawn = [each for name in names for each in _histograms(settings, name, totals[name])]
        write_picture(output, as_svg(drawn))


def _histograms(config: Config, name: str, totals: Totals) -> list[Histogram]:
    """Return how late messages came, how long they waited, and how far out of order they were."""
    from streaming.arrow.histograms import DISPLACED, LATE_MS, WAITED_MS  # noqa: PLC0415
    from streaming.graph.histograms import histogram  # noqa: PLC0415

    settings = config.pipelines[name]
    after = getattr(settings.gap.after, "ms", None)
    today = {LATE_MS: after, WAITED_MS: after, DISPLACED: settings.buffer.held}
    found = [histogram(kind, totals.histograms, limit) for kind, limit in today.items()]
    return [replace(each, title=f"{name}: {each.title}") for each in found if any(each.counts)]


def _kept(config: Config, name: str) -> Totals:
    from streaming.arrow.totals import Totals  # noqa: PLC0415
    from streaming.service.checkpoint import Checkpoint  # noqa: PLC0415

    shards = Checkpoint.of(config, name).status().get("shards", {})
    return Totals.sum(Totals(**fields) for fields in shards.values())


def _measured(config: Config, name: str) -> Totals:
    from streaming.replay.stepping import measuring, run  # noqa: PLC0415

    replay = measuring(config, name)
    run(config, [replay], config.service.trigger.ms)
    return replay.totals


def _tell(name: str, config: Config, advice: Advice, share: float, *, measured: bool) -> None:
    from streaming.replay.advice import gap_time  # noqa: PLC0415

    settings = config.pipelines[name]
    print(f"{name}: {advice.messages:,} messages, {advice.out_of_order:,} out of order")
    if not advice.messages:
        return
    best = advice.after_best
    if best is None:
        print(f"  gap.after: no time up to a day gives up fewer than {share:.3%}")
    else:
        print(f'  gap.after = "{gap_time(best)}" would have given up {best.share:.3%}')
    _table([(gap_time(after), after.share) for after in advice.after_ms])
    labels = advice.labels_best
    if labels is None:
        print(f"  buffer.held: no buffer up to a million gives up fewer than {share:.3%}")
    else:
        print(f"  buffer.held = {labels.value:,} would have given up {labels.share:.3%}, at most")
    _table([(f"{label.value:,}", label.share) for label in advice.labels])
    now = f"gap.policy is {settings.gap.policy}"
    now += f", gap.after {settings.gap.after}" if settings.gap.after else ""
    print(f"  now: {now}, buffer.held {settings.buffer.held:,}")
    if advice.late and not measured:
        print(
            f"{name}: {advice.late:,} messages came after they had been given up; how long one "
            "would have had to wait for them, --measure finds out.",
            file=sys.stderr,
        )


def _table(rows: list[tuple[str, Any]]) -> None:
    """Print settings and shares; of equal shares the first, which is the shortest wait."""
    shown = None
    for value, share in rows:
        if share != shown:
            print(f"    {value:>10}  {share:9.4%}")
        shown = share
