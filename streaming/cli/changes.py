"""`sequencer group …` and `sequencer node …`: changes of groups and nodes while messages flow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from streaming.cli.asking import (
    LIMIT_SECONDS,
    ConfigFile,
    JsonOption,
    LimitOption,
    PipelineOption,
    load_pipeline,
    tell,
)

group = typer.Typer(help="Change the groups of a running pipeline.", no_args_is_help=True)
node = typer.Typer(help="Change the nodes of a running pipeline.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="Its name.")]
MembersArgument = Annotated[list[str], typer.Argument(help="All its members.")]


@group.command("add")
def group_add(
    config: ConfigFile,
    name: NameArgument,
    members: MembersArgument,
    pipeline: PipelineOption = None,
    limit: LimitOption = LIMIT_SECONDS,
    as_json: JsonOption = False,
) -> None:
    """Add the group NAME with its MEMBERS.

    Example: sequencer group add orders.toml G3 B C
    """
    _change(
        config,
        "group",
        pipeline,
        {"op": "add", "group": name, "members": members},
        limit,
        as_json=as_json,
    )


@group.command("set")
def group_set(
    config: ConfigFile,
    name: NameArgument,
    members: MembersArgument,
    pipeline: PipelineOption = None,
    limit: LimitOption = LIMIT_SECONDS,
    as_json: JsonOption = False,
) -> None:
    """Give the group NAME other MEMBERS; all of them switch at one point.

    Example: sequencer group set orders.toml G3 B C D
    """
    _change(
        config,
        "group",
        pipeline,
        {"op": "set", "group": name, "members": members},
        limit,
        as_json=as_json,
    )


@group.command("remove")
def group_remove(
    config: ConfigFile,
    name: NameArgument,
    pipeline: PipelineOption = None,
    limit: LimitOption = LIMIT_SECONDS,
    as_json: JsonOption = False,
) -> None:
    """Remove the group NAME.

    Example: sequencer group remove orders.toml G3
    """
    _change(config, "group", pipeline, {"op": "remove", "group": name}, limit, as_json=as_json)


@node.command("create")
def node_create(
    config: ConfigFile,
    name: NameArgument,
    owner: Annotated[str, typer.Argument(help="The peer that owns it.")],
    pipeline: PipelineOption = None,
    limit: LimitOption = LIMIT_SECONDS,
    as_json: JsonOption = False,
) -> None:
    """Create the node NAME of the peer OWNER.

    Example: sequencer node create orders.toml n1 p1
    """
    given = {"op": "create-node", "node": name, "owner": owner}
    _change(config, "multicast", pipeline, given, limit, as_json=as_json)


@node.command("destroy")
def node_destroy(
    config: ConfigFile,
    name: NameArgument,
    pipeline: PipelineOption = None,
    limit: LimitOption = LIMIT_SECONDS,
    as_json: JsonOption = False,
) -> None:
    """Destroy the node NAME; the answer has the destruction's place in the order.

    Example: sequencer node destroy orders.toml n1
    """
    given = {"op": "destroy-node", "node": name}
    _change(config, "multicast", pipeline, given, limit, as_json=as_json)


@node.command("release")
def node_release(
    config: ConfigFile,
    name: NameArgument,
    peer: Annotated[str, typer.Argument(help="The peer that gives the handle back.")],
    pipeline: PipelineOption = None,
    limit: LimitOption = LIMIT_SECONDS,
    as_json: JsonOption = False,
) -> None:
    """Let PEER release its handle of the node NAME.

    Example: sequencer node release orders.toml n1 p2
    """
    given = {"op": "release", "peer": peer, "node": name}
    _change(config, "multicast", pipeline, given, limit, as_json=as_json)


def _change(
    config: Path,
    discipline: str,
    pipeline: str | None,
    command: dict[str, Any],
    limit: float,
    *,
    as_json: bool,
) -> None:
    from streaming.kafka.asking import ask  # noqa: PLC0415  (a quick --help)

    settings, name = load_pipeline(config, pipeline, discipline)
    tell(ask(settings, name, command, None, limit), as_json=as_json)
