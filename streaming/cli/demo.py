"""`sequencer demo`: the service at work, in a minute or two."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from streaming.errors import ConfigError


class Scene(StrEnum):
    """What is shown."""

    CHANNELS = "channels"
    GROUPS = "groups"
    MULTICAST = "multicast"


def demo(
    scene: Annotated[Scene, typer.Argument(help="What to show.")] = Scene.CHANNELS,
    flights: Annotated[
        int | None,
        typer.Option(
            help="How many (multicast: orders); 0 for the whole year. "
            "[default: 40,000 for channels, 5,000 for groups, 1,000 for multicast]"
        ),
    ] = None,
    per_second: Annotated[
        float | None,
        typer.Option(
            help="How fast they are published. [default: 4,000; groups: 200; multicast: 50]"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the disorder; one seed gives one disorder.")] = 1,
    keep: Annotated[
        Path | None, typer.Option(help="Folder to keep: configuration, log, broker's data.")
    ] = None,
) -> None:
    """Put the flights of 2013 out of New York in order, live.

    channels: three producers, one for each airport, publish their flights to Kafka, each with its
    own delay and disorder; channel = aircraft, label = its n-th flight. The service delivers every
    aircraft's flights in order; flights without a tail number end in the rejects.

    groups: airports are groups, the airlines that fly there subscribe. The airports' desks tell
    their airlines of departures and arrivals; airlines answer, leave and come back meanwhile. Any
    two airlines see what both get in the same order.

    multicast: orders, payments, inventory, ledger and mail of a shop tell each other what happened.
    An order makes a payment; some payments make a refund, sent by somebody who heard of the payment
    by telephone. Nobody reads a refund before its payment.

    At the end the order is judged from the topics alone. Starts a Kafka broker of its own;
    SEQUENCER_BOOTSTRAP_SERVERS uses another.

    Exit status: 0 everything is in order; 1 it is not, or something failed.

    Example: sequencer demo groups --flights 10000 --keep var/demo
    """
    from streaming.demo import channels, groups, shop  # noqa: PLC0415  (a quick --help)
    from streaming.demo.stage import announce  # noqa: PLC0415

    if scene is Scene.MULTICAST:
        if flights == 0:
            raise ConfigError(
                "The shop has no whole year of orders: --flights 0 is for flights.",
                "Nothing was started.",
                "Say how many: --flights 1000.",
            )
        count, rate = flights or 1_000, per_second or 50.0
        good = shop.Demo(count, rate, seed, keep).run()
        page = "docs/multicast.md"
    elif scene is Scene.GROUPS:
        count, rate = 5_000 if flights is None else flights, per_second or 200.0
        good = groups.Demo(count, rate, seed, keep).run()
        page = "docs/groups.md"
    else:
        count, rate = 40_000 if flights is None else flights, per_second or 4000.0
        good = channels.Demo(count, rate, seed, keep).run()
        page = "docs/channels.md"
    if not good:
        raise typer.Exit(1)
    announce(
        "Where next: sequencer demo --keep var/demo keeps the configuration and the data to look "
        f"at; README.md has a configuration of your own, {page} the rules."
    )
