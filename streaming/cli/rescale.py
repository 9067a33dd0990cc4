"""`sequencer rescale`: more or fewer shards and state partitions, for a stopped service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def rescale(
    config: Annotated[Path, typer.Argument(help="The service's TOML file, as it ran.")],
    shards: Annotated[int, typer.Option(min=1, max=1024, help="The new service.shards.")],
    state_partitions: Annotated[
        int,
        typer.Option(
            min=1, max=1024, help="New number of state partitions (cores that run the state)."
        ),
    ],
    to: Annotated[str, typer.Option("--to", help="The new checkpoint: a folder or URI.")],
) -> None:
    """Move a stopped service's state into a new checkpoint.

    The new checkpoint has more or fewer shards and partitions.

    All state is kept: held messages, given-up labels, counts. Nothing is delivered twice or lost.
    The new checkpoint is read back and compared before the old one is closed; until then the old
    one is untouched. If interrupted, run the same command again; it resumes. Pipelines whose shards
    send each other messages (sequencing = "network", order = "clock" or "counter") cannot change
    the number of state partitions while messages are between shards; let them finish first (run
    CONFIG --once). All state is in this machine's memory for a moment.

    Exit status: 0 moved; 1 the service runs, its last batch is not done, or the new checkpoint
    differs from the old one; 2 the configuration cannot work, or there is no checkpoint.

    Example: sequencer rescale orders.toml --shards 64 --state-partitions 8 --to var/checkpoints-8
    """
    from streaming.config import load_config  # noqa: PLC0415  (a quick --help)
    from streaming.errors import ConfigError  # noqa: PLC0415
    from streaming.logs import say  # noqa: PLC0415
    from streaming.service.checkpoint import Checkpoint  # noqa: PLC0415
    from streaming.service.rescale import Target  # noqa: PLC0415
    from streaming.service.rescale import rescale as move  # noqa: PLC0415
    from streaming.spark.session import local, spark_session, start_jvm  # noqa: PLC0415

    settings = load_config(config)
    root = to.rstrip("/")
    if state_partitions > shards:
        raise ConfigError(
            f"--state-partitions {state_partitions} is more than --shards {shards}.",
            "Nothing was changed.",
            "A state partition holds at least one shard: give more shards, or fewer partitions.",
        )
    if not root:
        raise ConfigError(
            f"--to {to!r} is not a place for a checkpoint.",
            "Nothing was changed.",
            "Name a new folder or URI.",
        )
    if root == settings.service.checkpoint.rstrip("/"):
        raise ConfigError(
            f"--to {to} is the checkpoint that there is.",
            "Nothing was changed.",
            "Name a new one; the old one is kept until you remove it.",
        )
    there = [Checkpoint.of(settings, name) for name in settings.pipelines]
    if all(each.identity() is None and not each.was_moved_to(root) for each in there):
        for each in there:
            each.require_whole()
        raise ConfigError(
            f"No pipeline has a checkpoint in {settings.service.checkpoint}.",
            "Nothing was moved.",
            "Check service.checkpoint; a new checkpoint takes service.shards from the file.",
        )
    here = local(settings)
    with spark_session(here, start_jvm(here, root)) as session:
        target = Target(root, shards, state_partitions)
        move(session, settings, list(settings.pipelines), target, say)
    print(f'checkpoint = "{root}"\nshards = {shards}\nstate_partitions = {state_partitions}')
