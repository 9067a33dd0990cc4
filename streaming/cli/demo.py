"""`sequencer demo`: the service at work, in a minute or two."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    flights: Annotated[int, typer.Option(help="How many flights; 0 for the whole year.")] = 40_000,
    per_second: Annotated[float, typer.Option(help="How fast they are published.")] = 2000.0,
    seed: Annotated[int, typer.Option(help="Of the disorder; one seed gives one disorder.")] = 1,
    keep: Annotated[
        Path | None, typer.Option(help="Folder to keep: configuration, log, broker's data.")
    ] = None,
) -> None:
    """Put the flights of 2013 out of New York in order, live.

    Three producers, one for each airport, publish their flights to Kafka, each with its own delay
    and disorder; channel = aircraft, label = its n-th flight. The service delivers every aircraft's
    flights in order; flights without a tail number end in the rejects. At the end the order is
    judged from the topics alone.

    Starts a Kafka broker of its own; SEQUENCER_BOOTSTRAP_SERVERS uses another.

    Exit status: 0 everything is in order; 1 it is not, or something failed.

    Example: sequencer demo --flights 100000 --keep var/demo
    """
    from streaming.demo.channels import Demo  # noqa: PLC0415  (a quick --help)
    from streaming.demo.stage import told  # noqa: PLC0415

    good = Demo(flights, per_second, seed, keep).run()
    if not good:
        raise typer.Exit(1)
    told(
        "Where next: sequencer demo --keep var/demo keeps the configuration and the data to look "
        "at; README.md has a configuration of your own, docs/channels.md the rules."
    )
