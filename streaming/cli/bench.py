"""`sequencer bench`: how fast this machine puts messages in order."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streaming.cli.pictures import require_writable, write_picture

if TYPE_CHECKING:
    from streaming.bench.measuring import Measured

BYTES_MAX = 900_000
"""A topic with its broker's defaults takes records up to 1 MB."""


def bench(
    messages: Annotated[int, typer.Option("--messages", help="How many.", min=1_000)] = 1_000_000,
    channels: Annotated[
        int, typer.Option("--channels", help="Number of channels.", min=1)
    ] = 10_000,
    size: Annotated[
        int, typer.Option("--bytes", help="Size of each value.", min=0, max=BYTES_MAX)
    ] = 100,
    rate: Annotated[
        float, typer.Option("--rate", help="Messages a second for the latency.", min=1)
    ] = 2_000,
    seconds: Annotated[
        float,
        typer.Option("--seconds", help="Measure latency for this long; 0: not at all.", min=0),
    ] = 20,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE.svg", help="Also draw the figures into this file."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure how fast this machine puts messages in order.

    A channel pipeline with default settings orders a backlog (`sequencer run --once`). For
    comparison, one process copies the same messages with librdkafka, exactly once, without ordering
    them. Then it measures the latency at a given rate, from a message's timestamp to a reader of
    committed messages. It starts a broker of its own, or uses that of SEQUENCER_BOOTSTRAP_SERVERS;
    topics and folders that it made are removed.

    Results hold for this machine only. Compare ratios within one run, and close other programs.
    With -o also as a picture. `make bench` in the source compares with Spark at its best.

    Exit status: 0; 1 the service or Kafka failed; 2 the call is wrong.

    Example: sequencer bench --messages 200000 --seconds 0
    """
    from streaming.bench.measuring import Wanted, measure  # noqa: PLC0415  (a quick --help)
    from streaming.stopping import end_as_by_ctrl_c  # noqa: PLC0415

    if output is not None:
        require_writable(output)  # known before minutes are spent
    end_as_by_ctrl_c()
    wanted = Wanted.of(messages, channels, size, rate, seconds)
    found = measure(wanted, lambda said: print(said, file=sys.stderr, flush=True))
    if output is not None:
        write_picture(output, picture(found))
    if as_json:
        print(json.dumps(found.plain()))
        return
    plain = found.plain()
    rows = [
        ("messages", f"{found.messages:,}"),
        ("put in order", f"{found.ordered_rate:,.0f} records/s"),
        ("copied, not ordered", f"{found.copied_rate:,.0f} records/s"),
        ("ordered beside copied", f"{plain['ratio']:.2f}"),
        ("start to first output", f"{found.first_output_seconds:.1f} s"),
    ]
    if found.p50_seconds is not None and found.p99_seconds is not None:
        rows.append(("latency, p50", f"{1000 * found.p50_seconds:,.0f} ms"))
        rows.append(("latency, p99", f"{1000 * found.p99_seconds:,.0f} ms"))
    for name, figure in rows:
        print(f"{name:24}{figure:>20}")


def picture(found: Measured) -> str:
    """Draw what was measured: the rate beside that of the copy, and latencies."""
    from streaming.graph.figures import Figures, draw  # noqa: PLC0415

    rates = (found.ordered_rate, found.copied_rate)
    groups = [
        Figures(
            f"records a second, {found.messages:,} messages",
            ("put in order", "copied, not ordered"),
            rates,
            [f"{each:,.0f}" for each in rates],
        )
    ]
    if found.p50_seconds is not None and found.p99_seconds is not None:
        times = (found.p50_seconds, found.p99_seconds)
        texts = [f"{1000 * each:,.0f} ms" for each in times]
        groups.append(Figures("latency", ("p50", "p99"), times, texts))
    return draw(groups)
