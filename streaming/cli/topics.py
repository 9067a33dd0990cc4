"""`sequencer topics`: which topics there are, and creating the others."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streaming.logs import count

if TYPE_CHECKING:
    from streaming.config import Config


def topics(
    config: Annotated[Path, typer.Argument(help="The service's TOML file.")],
    create: Annotated[
        bool, typer.Option("--create", help="Create the missing topics, inputs included.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List or create the topics that CONFIG needs.

    Existing topics are left unchanged.

    A new topic gets as many partitions as it had (if the checkpoint can be read), else as its
    pipeline's first input has, else 8 (one of commands: 1), and the brokers' own replication factor
    and retention. A run creates missing outputs itself, but no inputs.

    Exit status: 0 all are there; 1 some are missing or Kafka does not answer; 2 wrong input.

    Example: sequencer topics orders.toml --create
    """
    from streaming.config import load_config  # noqa: PLC0415
    from streaming.kafka import topics as all_topics  # noqa: PLC0415  (a quick --help)

    settings = load_config(config)
    if create:
        known = partial(_known, settings)
        for name in all_topics.create(settings, inputs=True, known=known):
            print(f"created {name}", file=sys.stderr)
    needed = all_topics.needed(settings)
    if as_json:
        print(json.dumps([asdict(topic) for topic in needed], indent=2))
    else:
        for topic in needed:
            there = topic.partitions
            partitions = "missing" if there is None else count(there, "partition")
            print(f"{topic.name}\t{topic.pipeline} {topic.role}\t{partitions}")
    if lacking := sum(topic.partitions is None for topic in needed):
        print(f"{lacking} missing; --create creates them.", file=sys.stderr)
        raise typer.Exit(1)


def _known(config: Config) -> dict[str, int]:
    from streaming.errors import SequencerError  # noqa: PLC0415
    from streaming.service.checkpoint import Checkpoint  # noqa: PLC0415
    from streaming.service.planning import known_partitions  # noqa: PLC0415

    with suppress(SequencerError):  # on another machine, say
        return known_partitions(Checkpoint.of(config, name) for name in config.pipelines)
    return {}
