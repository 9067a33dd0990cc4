"""Commands about nodes: reading them, and what their answers repeat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streaming.disciplines.commands import (
    CommandRefused,
    name_fault,
    names_in,
    own_id,
    read_object,
    read_request,
    require_known,
    signature,
)

CREATE, DESTROY, RELEASE = OPS = ("create-node", "destroy-node", "release")
FIELDS = ("node", "owner", "peer")


@dataclass(frozen=True, slots=True)
class NodeCommand:
    """A valid command. Names are texts, unchanged.

    ``other``: the owner of a node to be created, or the peer that releases a handle.
    """

    op: str
    node: str
    other: str = ""

    def repeated(self) -> dict[str, Any]:
        """Return the fields that the answer repeats."""
        role = {CREATE: "owner", RELEASE: "peer"}.get(self.op)
        return {"op": self.op, "node": self.node, **({role: self.other} if role else {})}


def read_command(value: bytes | None, asked: str | None = None) -> NodeCommand:
    """Read a command; ``asked``: the operation in the header of an input's record.

    Raises CommandRefused if it is not valid; `command_id` has its id then, too.
    """
    request = read_request(value, asked)
    signature(request)
    op, node = request.get("op"), request.get("node")
    if not isinstance(op, str) or op not in OPS:
        raise CommandRefused("unknown-op", f"op is none of {', '.join(OPS)}")
    require_known(request, FIELDS, asked)
    if wrong := name_fault(node) or _unnameable(str(node)):
        raise CommandRefused("bad-node", f"the node's name {wrong}")
    if op == DESTROY:
        return NodeCommand(op, str(node))
    role = "owner" if op == CREATE else "peer"
    other = request.get(role)
    if wrong := name_fault(other) or _unnameable(str(other)):
        raise CommandRefused(f"bad-{role}", f"the {role}'s name {wrong}")
    return NodeCommand(op, str(node), str(other))


def readable(value: bytes | None, asked: str | None) -> NodeCommand | CommandRefused:
    """Return a command, or its refusal."""
    try:
        return read_command(value, asked)
    except CommandRefused as refused:
        return refused


def releasing(command: NodeCommand | CommandRefused) -> bytes:
    """Return the peer that releases a handle; empty if none does."""
    releases = isinstance(command, NodeCommand) and command.op == RELEASE
    return command.other.encode() if releases else b""  # type: ignore[union-attr]


def command_id(value: bytes | None) -> str | None:
    """Return the id of a command, also of one that is refused."""
    try:
        return own_id(read_object(value))
    except CommandRefused:
        return None


def refusal(value: bytes | None, asked: str | None, why: CommandRefused) -> dict[str, str]:
    """Return the answer's fields for a refused command: the names that it has, and the reason.

    ``asked``: as in :func:`read_command`.
    """
    try:
        names = names_in(read_request(value, asked), ("op", *FIELDS))
    except CommandRefused:
        names = {}
    return {**names, "reason": why.reason, "detail": why.detail}


def signed(value: bytes | None) -> dict[str, str]:
    """Return a command's `by` and `why` for its answer; empty if they cannot be read."""
    try:
        return signature(read_object(value))
    except CommandRefused:
        return {}


def _unnameable(name: str) -> str:
    """Return why the name cannot be written into `to`; empty if it can."""
    if "," in name:
        return "has a comma, which separates names"
    return "begins with @, which marks nodes" if name.startswith("@") else ""
