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


ORDERS = {
    Scene.CHANNELS: ("batch",),
    Scene.GROUPS: ("batch", "network"),
    Scene.MULTICAST: ("batch", "clock", "counter"),
}


def demo(
    scene: Annotated[Scene, typer.Argument(help="What to show.")] = Scene.CHANNELS,
    flights: Annotated[
        int | None,
        typer.Option(
            help="How many (multicast: orders); 0 for the whole year. "
            "[default: 40,000 for channels, 5,000 for groups, 1,000 for multicast]",
            min=0,
        ),
    ] = None,
    per_second: Annotated[
        float | None,
        typer.Option(
            help="Rate at which they are published. [default: 4,000; groups: 200; multicast: 50]",
            min=0,
        ),
    ] = None,
    order: Annotated[
        str,
        typer.Option(
            help="Protocol: batch; for groups also network, for multicast also clock, counter."
        ),
    ] = "batch",
    seed: Annotated[
        int, typer.Option(help="Seed of the disorder; one seed gives one disorder.")
    ] = 1,
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

    Groups and multicasts are in the order of the batch; with --order by the other protocols: on a
    network of sequencing nodes, by clocks or by a counter.

    At the end the order is judged from the topics alone. Starts a Kafka broker of its own;
    SEQUENCER_BOOTSTRAP_SERVERS uses another.

    Exit status: 0 everything is in order; 1 it is not, or something failed.

    Example: sequencer demo groups --flights 10000 --keep var/demo
    """
    from streaming.stopping import end_as_by_ctrl_c  # noqa: PLC0415  (a quick --help)

    _require(scene, order, flights)
    end_as_by_ctrl_c()
    good, page = _shown(scene, flights, per_second, seed, keep, order)
    if not good:
        raise typer.Exit(1)
    from streaming.demo.stage import announce  # noqa: PLC0415

    kept = "" if keep else "sequencer demo --keep var/demo keeps the configuration and the data; "
    announce(f"Where next: {kept}README.md has a configuration of your own, {page} the rules.")


def _require(scene: Scene, order: str, flights: int | None) -> None:
    """Raise ConfigError where a scene has no such order, or not as many."""
    if order not in ORDERS[scene]:
        raise ConfigError(
            f"The demo of {scene.value} has no order {order!r}.",
            "Nothing was started.",
            f"Take one of: {', '.join(ORDERS[scene])}.",
        )
    if scene is Scene.MULTICAST and flights == 0:
        raise ConfigError(
            "The shop has no whole year of orders: --flights 0 is for flights.",
            "Nothing was started.",
            "Say how many: --flights 1000.",
        )


def _shown(
    scene: Scene,
    flights: int | None,
    per_second: float | None,
    seed: int,
    keep: Path | None,
    order: str,
) -> tuple[bool, str]:
    """Show a scene; whether everything was in order, and the page of its rules."""
    from streaming.demo import channels, groups, shop  # noqa: PLC0415  (a quick --help)

    if scene is Scene.MULTICAST:
        count, rate = flights or 1_000, per_second or 50.0
        return shop.Demo(count, rate, seed, keep, order).run(), "docs/multicast.md"
    if scene is Scene.GROUPS:
        count, rate = 5_000 if flights is None else flights, per_second or 200.0
        return groups.Demo(count, rate, seed, keep, order).run(), "docs/groups.md"
    count, rate = 40_000 if flights is None else flights, per_second or 4000.0
    return channels.Demo(count, rate, seed, keep).run(), "docs/channels.md"
