"""Commands that were refused: each reason fits what the commands before it had done.

Judged as far as the answers show it: up to a group's or node's first command without an answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from streaming.places import Place
from streaming.verify.commands import DONE, MOVED, Command
from streaming.verify.faults import Verdict
from streaming.verify.memberships import Group, Members

Commands = Mapping[str, Sequence[Command]]
UNREADABLE = ("unreadable", "unknown-op")
"""Reasons of refusals: the command is no JSON object, or names no operation."""


def judge_group_refusals(
    verdict: Verdict,
    groups: Mapping[bytes, Group],
    commands: Commands,
    begun: Mapping[Place, int] | None,
) -> None:
    """Hold refusals against what was done to their groups.

    ``commands``: of each group, in order. ``begun``: the versions that changes began, by the places
    of their commands; None: those of other groups' changes count, too.
    """
    for name, changes in commands.items():
        group = groups.get(name.encode(), Group())
        done = {command.place: after for command, after in group.done}
        members: Members | None = group.memberships[0] if group.configured else frozenset()
        version: int | None = 0 if group.configured and begun is not None else None
        for command, is_done in _answered(changes):
            if not is_done:
                wrong = _wrong_of_group(command, members, version)
                _find(verdict, command, wrong)
            elif command.place in done:
                after = done[command.place]
                members = frozenset() if command.op == "remove" else None
                members = after[0] if len(after) == 1 else members
                version = begun.get(command.place) if begun is not None else None


def _wrong_of_group(command: Command, members: Members | None, version: int | None) -> str:
    """What is wrong with a refusal; ``members`` of the group then, empty if there was none."""
    fields = command.answers[0].fields
    reason, named = fields.get("reason"), frozenset(name.encode() for name in command.others)
    if reason == "group-exists":
        return "there was no such group" if command.op != "add" or members == frozenset() else ""
    if reason == "unknown-group":
        return "the group was there" if command.op == "add" or members else ""
    if reason == "no-members":
        leaves = command.op == "leave" and (members is None or members <= named)
        return "" if leaves else "the group would have had members"
    if reason in UNREADABLE or (reason == MOVED and members == frozenset()):
        return "it can be read" if reason in UNREADABLE else "there was no such group"
    if reason == MOVED and version is not None and fields.get("version") not in (None, version):
        return f"the group had version {version}"
    return ""


def judge_node_refusals(verdict: Verdict, commands: Commands) -> None:
    """Hold refusals against what was done to their nodes, where all came from one partition.

    Else the answer to a destruction, which may be late, does not say when it took effect.
    """
    for changes in commands.values():
        if len({command.place[:2] for command in changes}) > 1:
            continue
        owner: bytes | None = None
        ever = False
        for command, is_done in _answered(changes):
            if not is_done:
                _find(verdict, command, _wrong_of_node(command, owner, ever=ever))
            elif command.op == "create-node":
                owner, ever = command.others[0].encode(), True
            elif command.op == "destroy-node":
                owner = None


def _wrong_of_node(command: Command, owner: bytes | None, *, ever: bool) -> str:
    """What is wrong with a refusal; ``owner`` of the node then, ``ever``: whether it was there."""
    reason = command.answers[0].fields.get("reason")
    if reason == "node-exists":
        return "" if ever and command.op == "create-node" else "there never was such a node"
    if reason == "unknown-node":
        return "the node was there" if owner is not None or command.op == "create-node" else ""
    if reason == "destroyed-node":
        return "the node was not destroyed" if owner is not None or not ever else ""
    if reason in UNREADABLE:
        return "it can be read"
    if reason == "not-owner":
        owns = not command.in_input or (owner is not None and command.sender == owner)
        return "the node is its sender's, or nobody has to own it" if owns else ""
    return ""


def _answered(changes: Sequence[Command]) -> Iterator[tuple[Command, bool]]:
    """Yield commands up to the first without an answer, and whether each was done."""
    for command in takewhile(lambda each: each.answered, changes):
        yield command, command.answers[0].kind == DONE


def _find(verdict: Verdict, command: Command, wrong: str) -> None:
    if wrong:
        answer = command.answers[0]
        reason = answer.fields.get("reason")
        verdict.find("wrong-answer", f"{answer.where} refuses {command.where} as {reason}: {wrong}")
