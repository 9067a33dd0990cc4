"""`sequencer backup`: a copy of a running service's checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def backup(
    config: Annotated[Path, typer.Argument(help="The service's TOML file.")],
    to: Annotated[Path, typer.Argument(help="The backup: a folder that does not exist yet.")],
) -> None:
    """Copy a service's checkpoint, as of one moment.

    The service may run or not; the moment is between two batches. Each pipeline is a folder in TO,
    as in service.checkpoint. On one disk files are linked, not copied. To go back: stop the
    service, put TO in place of service.checkpoint, start it; what was delivered since is delivered
    again (run --accept-repeats), and the start says so.

    Exit status: 0 TO is whole; 1 it could not be made; 2 the checkpoint is not in a folder or
    has no batch yet, or TO exists.

    Example: sequencer backup orders.toml /backup/orders-monday
    """
    from streaming.config import load_config  # noqa: PLC0415  (a quick --help)
    from streaming.logs import say  # noqa: PLC0415
    from streaming.service.backup import back_up  # noqa: PLC0415
    from streaming.service.checkpoint import Checkpoint  # noqa: PLC0415

    settings = load_config(config)
    checkpoints = [Checkpoint.of(settings, name) for name in settings.pipelines]
    for name, batch in back_up(checkpoints, to).items():
        if batch < 0:
            say(f"{name}: has done no batch yet; there is nothing to keep", pipeline=name)
        else:
            say(f"{name}: as it was after batch {batch}", pipeline=name, batch=batch)
    print(to)
