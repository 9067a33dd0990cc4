"""Nodes of discipline `multicast`: commands, and the list of nodes that every shard keeps.

All shards see a command in the same batch, so each keeps the same list without asking: which names
there are, who owns them, and which were destroyed or are about to be. *When* a destruction takes
place, its stamp, is known to the protocol alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from streaming.disciplines.commands import (
    Refused,
    name_fault,
    own_id,
    read_object,
    read_request,
    signature,
)

NODES_MAX = 100_000
CREATE, DESTROY, RELEASE = OPS = ("create-node", "destroy-node", "release")


@dataclass(frozen=True, slots=True)
class NodeCommand:
    """A command that can be read. Names are texts as the command has them.

    ``other``: the owner of a node to be created, the peer that releases a handle.
    """

    op: str
    node: str
    other: str = ""

    def repeated(self) -> dict[str, Any]:
        """What the answer to it repeats."""
        role = {CREATE: "owner", RELEASE: "peer"}.get(self.op)
        return {"op": self.op, "node": self.node, **({role: self.other} if role else {})}


def read_command(value: bytes | None, asked: str | None = None) -> NodeCommand:
    """A command; ``asked``: the operation of a record of an input, which its header names.

    Raises Refused where it cannot be read; `command_id` has its id then, too.
    """
    request = read_request(value, asked)
    signature(request)
    op, node = request.get("op"), request.get("node")
    if not isinstance(op, str) or op not in OPS:
        raise Refused("unknown-op", f"op is none of {', '.join(OPS)}")
    if wrong := name_fault(node) or _unnameable(str(node)):
        raise Refused("bad-node", f"the node's name {wrong}")
    if op == DESTROY:
        return NodeCommand(op, str(node))
    role = "owner" if op == CREATE else "peer"
    other = request.get(role)
    if wrong := name_fault(other) or _unnameable(str(other)):
        raise Refused(f"bad-{role}", f"the {role}'s name {wrong}")
    return NodeCommand(op, str(node), str(other))


def readable(value: bytes | None, asked: str | None) -> NodeCommand | Refused:
    """A command, or why it is refused."""
    try:
        return read_command(value, asked)
    except Refused as refused:
        return refused


def releasing(command: NodeCommand | Refused) -> bytes:
    """The peer that gives a handle back; empty where none does."""
    releases = isinstance(command, NodeCommand) and command.op == RELEASE
    return command.other.encode() if releases else b""  # type: ignore[union-attr]


def command_id(value: bytes | None) -> str | None:
    """The id of a command, also of one that is refused."""
    try:
        return own_id(read_object(value))
    except Refused:
        return None


def signed(value: bytes | None) -> dict[str, str]:
    """Who gave a command, and why, as its answer says it; nothing where that cannot be read."""
    try:
        return signature(read_object(value))
    except Refused:
        return {}


def _unnameable(name: str) -> str:
    """Why nobody could write the name into `to`."""
    if "," in name:
        return "has a comma, which separates names"
    return "begins with @, which marks nodes" if name.startswith("@") else ""


@dataclass(slots=True)
class KnownNode:
    """A node from its creation on: its name in the protocol, its owner's name there.

    ``destroyed_ms``: batch time of the command that destroys it, -1 while there is none.
    """

    id: str
    owner: str
    destroyed_ms: int = -1

    @property
    def number(self) -> int:
        """That no other node has, not even one of this name."""
        return int(self.id.partition(":")[0])


@dataclass(slots=True)
class Nodes:
    """All nodes by name (Latin-1, one character a byte), also destroyed ones for a while.

    A name that is used again stands for another node of the protocol (`id`).
    """

    remembered_ms: int
    lives: dict[str, KnownNode] = field(default_factory=dict)
    born: int = 0
    _text: str = ""

    def find(self, name: str, now_ms: int) -> KnownNode | None:
        """The node of a name; None where there never was one, or it is forgotten."""
        life = self.lives.get(name)
        return None if life is None or self._forgotten(life, now_ms) else life

    def do(self, command: NodeCommand, now_ms: int) -> KnownNode:
        """Carry out a command as far as nodes are concerned; the node. Refused where none can be.

        To release a handle changes no node.
        """
        if command.op == CREATE:
            return self._create(command, now_ms)
        life = self.find(latin(command.node.encode()), now_ms)
        if life is None:
            raise Refused("unknown-node", f"there is no node {command.node}")
        if command.op == DESTROY:
            if life.destroyed_ms >= 0:
                raise Refused(
                    "destroyed-node", f"node {command.node} is destroyed, or about to be, already"
                )
            life.destroyed_ms = now_ms
            self._text = ""
        return life

    def require_owner(self, command: NodeCommand, sender: bytes | None, now_ms: int) -> None:
        """Raise Refused where somebody else than its owner destroys a node."""
        life = self.find(latin(command.node.encode()), now_ms)
        if command.op == DESTROY and life is not None and raw(life.owner) != sender:
            owner = shown(life.owner)
            raise Refused("not-owner", f"node {command.node} is {owner}'s, the record another's")

    def _create(self, command: NodeCommand, now_ms: int) -> KnownNode:
        name = latin(command.node.encode())
        if self.find(name, now_ms) is not None:
            raise Refused(
                "node-exists",
                f"node {command.node} exists, or did not long ago; take another name",
            )
        if len(self.lives) >= NODES_MAX:
            raise Refused("too-many-nodes", f"{NODES_MAX} nodes exist, or did not long ago")
        life = KnownNode(f"{self.born}:{name}", latin(command.other.encode()))
        self.lives.pop(name, None)
        self.lives[name] = life
        self.born += 1
        self._text = ""
        return life

    def forget(self, now_ms: int) -> Iterator[KnownNode]:
        """Drop the nodes whose time is over."""
        for name in [n for n, life in self.lives.items() if self._forgotten(life, now_ms)]:
            self._text = ""
            yield self.lives.pop(name)

    def dump(self) -> bytes:
        """All nodes; made anew only where a command changed them."""
        if not self._text:
            lives = [(name, o.id, o.owner, o.destroyed_ms) for name, o in self.lives.items()]
            self._text = json.dumps([self.born, lives], separators=(",", ":"))
        return self._text.encode()

    def load(self, state: bytes) -> None:
        """Become what `state` was dumped from."""
        self._text = state.decode()
        self.born, lives = json.loads(self._text)
        self.lives = {name: KnownNode(*rest) for name, *rest in lives}

    def _forgotten(self, life: KnownNode, now_ms: int) -> bool:
        return 0 <= life.destroyed_ms < now_ms - self.remembered_ms


def latin(name: bytes) -> str:
    """A name in the protocol: a character for each byte, so that texts sort as bytes do."""
    return name.decode("latin-1")


def raw(name: str) -> bytes:
    """The inverse of :func:`latin`."""
    return name.encode("latin-1")


def shown(name: str) -> str:
    """A name of the protocol for people."""
    return raw(name).decode(errors="backslashreplace")


def bare(node: str) -> str:
    """The name of a node of the protocol."""
    return node.partition(":")[2]
