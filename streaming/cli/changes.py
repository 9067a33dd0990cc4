"""`sequencer group …` and `sequencer node …`: changes of groups and nodes while messages flow."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from streaming.cli.asking import ConfigFile, JsonOption, PipelineOption, load_pipeline
from streaming.cli.questions import Question, spread
from streaming.cli.verbs import Verbs
from streaming.terminal import printable, printable_json

group = typer.Typer(
    cls=Verbs, help="Change the groups of a running pipeline.", no_args_is_help=True
)
node = typer.Typer(cls=Verbs, help="Change the nodes of a running pipeline.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="Its name.")]
MembersArgument = Annotated[
    list[str], typer.Argument(help="All its members, separated by blanks or commas.")
]
MemberArgument = Annotated[str, typer.Argument(help="The subscriber.")]
IfVersionOption = Annotated[
    int | None,
    typer.Option(
        "--if-version", help="Change it only if it still has this version; see `group list`.", min=0
    ),
]


@group.command("add")
@spread
def group_add(question: Question, name: NameArgument, members: MembersArgument) -> None:
    """Add the group NAME with its MEMBERS.

    Example: sequencer group add orders.toml G3 B C
    """
    question.ask("group", {"op": "add", "group": name, "members": _names(members)})


@group.command("set")
@spread
def group_set(
    question: Question,
    name: NameArgument,
    members: MembersArgument,
    if_version: IfVersionOption = None,
) -> None:
    """Give the group NAME other MEMBERS; all of them switch at one point.

    Example: sequencer group set orders.toml G3 B C D
    """
    command = {"op": "set", "group": name, "members": _names(members), "if_version": if_version}
    question.ask("group", command)


@group.command("join")
@spread
def group_join(
    question: Question,
    name: NameArgument,
    member: MemberArgument,
    if_version: IfVersionOption = None,
) -> None:
    """Let MEMBER join the group NAME; nothing changes if it is a member.

    Example: sequencer group join orders.toml G3 D --why "bought a licence"
    """
    command = {"op": "join", "group": name, "member": member, "if_version": if_version}
    question.ask("group", command)


@group.command("leave")
@spread
def group_leave(
    question: Question,
    name: NameArgument,
    member: MemberArgument,
    if_version: IfVersionOption = None,
) -> None:
    """Let MEMBER leave the group NAME; nothing changes if it is not a member.

    Example: sequencer group leave orders.toml G3 D
    """
    command = {"op": "leave", "group": name, "member": member, "if_version": if_version}
    question.ask("group", command)


@group.command("remove")
@spread
def group_remove(
    question: Question, name: NameArgument, if_version: IfVersionOption = None
) -> None:
    """Remove the group NAME.

    Example: sequencer group remove orders.toml G3
    """
    question.ask("group", {"op": "remove", "group": name, "if_version": if_version})


@group.command("list")
def group_list(
    config: ConfigFile, pipeline: PipelineOption = None, as_json: JsonOption = False
) -> None:
    """Show the current groups, read from the events topic.

    Example: sequencer group list orders.toml
    """
    from streaming.verify.current import now  # noqa: PLC0415  (a quick --help)

    groups = now(*load_pipeline(config, pipeline, "group"))
    _show([{"group": name, **asdict(groups[name])} for name in sorted(groups)], as_json=as_json)


@node.command("create")
@spread
def node_create(
    question: Question,
    name: NameArgument,
    owner: Annotated[str, typer.Argument(help="The peer that owns it.")],
) -> None:
    """Create the node NAME of the peer OWNER.

    Example: sequencer node create orders.toml n1 p1
    """
    question.ask("multicast", {"op": "create-node", "node": name, "owner": owner})


@node.command("destroy")
@spread
def node_destroy(question: Question, name: NameArgument) -> None:
    """Destroy the node NAME; the answer has the destruction's place in the order.

    Example: sequencer node destroy orders.toml n1
    """
    question.ask("multicast", {"op": "destroy-node", "node": name})


@node.command("release")
@spread
def node_release(
    question: Question,
    name: NameArgument,
    peer: Annotated[str, typer.Argument(help="The peer that gives the handle back.")],
) -> None:
    """Let PEER release its handle of the node NAME.

    Example: sequencer node release orders.toml n1 p2
    """
    question.ask("multicast", {"op": "release", "peer": peer, "node": name})


@node.command("list")
def node_list(
    config: ConfigFile, pipeline: PipelineOption = None, as_json: JsonOption = False
) -> None:
    """Show the current nodes, read from the events topic.

    Example: sequencer node list orders.toml
    """
    from streaming.verify.current import nodes  # noqa: PLC0415

    owners = nodes(*load_pipeline(config, pipeline, "multicast"))
    rows = [{"node": name, "owner": owner} for name, owner in sorted(owners.items())]
    _show(rows, as_json=as_json)


def _names(members: list[str]) -> list[str]:
    """The members, also where they were given as one word with commas."""
    return [name for word in members for name in word.split(",") if name]


def _show(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print(printable_json(rows))
        return
    for row in rows:
        cells = [", ".join(cell) if isinstance(cell, list) else str(cell) for cell in row.values()]
        print(printable("  ".join(cells), kept=""))
