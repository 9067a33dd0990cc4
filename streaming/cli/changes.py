"""`sequencer group …` and `sequencer node …`: changes of groups and nodes while messages flow."""

from __future__ import annotations

from typing import Annotated

import typer

from streaming.cli.questions import Question, spread

group = typer.Typer(help="Change the groups of a running pipeline.", no_args_is_help=True)
node = typer.Typer(help="Change the nodes of a running pipeline.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="Its name.")]
MembersArgument = Annotated[list[str], typer.Argument(help="All its members.")]


@group.command("add")
@spread
def group_add(question: Question, name: NameArgument, members: MembersArgument) -> None:
    """Add the group NAME with its MEMBERS.

    Example: sequencer group add orders.toml G3 B C
    """
    question.ask("group", {"op": "add", "group": name, "members": members})


@group.command("set")
@spread
def group_set(question: Question, name: NameArgument, members: MembersArgument) -> None:
    """Give the group NAME other MEMBERS; all of them switch at one point.

    Example: sequencer group set orders.toml G3 B C D
    """
    question.ask("group", {"op": "set", "group": name, "members": members})


@group.command("remove")
@spread
def group_remove(question: Question, name: NameArgument) -> None:
    """Remove the group NAME.

    Example: sequencer group remove orders.toml G3
    """
    question.ask("group", {"op": "remove", "group": name})


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
