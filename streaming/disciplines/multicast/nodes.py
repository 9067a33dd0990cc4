"""The list of nodes that every shard keeps.

All shards see a command in the same batch, so all have the same list without messages: the nodes'
names, their owners, and which are destroyed or about to be. Only the protocol knows a destruction's
stamp.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from streaming.disciplines.commands import CommandRefused
from streaming.disciplines.multicast.commands import CREATE, DESTROY, NodeCommand

NODES_MAX = 100_000


@dataclass(slots=True)
class KnownNode:
    """A node from its creation on: its name and its owner's name in the protocol.

    ``destroyed_ms``: batch time of the command that destroys it, -1 before.
    """

    id: str
    owner: str
    destroyed_ms: int = -1

    @property
    def number(self) -> int:
        """Return the node's number, which no other node has, not even a later one of this name."""
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
        """Return the node of a name; None if there never was one, or it is forgotten."""
        life = self.lives.get(name)
        return None if life is None or self._forgotten(life, now_ms) else life

    def owners(self) -> set[str]:
        """Return the peers that have a node."""
        return {life.owner for life in self.lives.values() if life.destroyed_ms < 0}

    def do(self, command: NodeCommand, now_ms: int) -> KnownNode:
        """Apply a command to the list of nodes, and return the node.

        Releasing a handle changes no node. Raises CommandRefused if it cannot be carried out.
        """
        if command.op == CREATE:
            return self._create(command, now_ms)
        life = self.find(latin(command.node.encode()), now_ms)
        if life is None:
            raise CommandRefused("unknown-node", f"there is no node {command.node}")
        if command.op == DESTROY:
            if life.destroyed_ms >= 0:
                raise CommandRefused(
                    "destroyed-node", f"node {command.node} is destroyed, or about to be, already"
                )
            life.destroyed_ms = now_ms
            self._text = ""
        return life

    def require_owner(self, command: NodeCommand, sender: bytes | None, now_ms: int) -> None:
        """Raise CommandRefused if anybody but its owner destroys a node."""
        life = self.find(latin(command.node.encode()), now_ms)
        if command.op == DESTROY and life is not None and raw(life.owner) != sender:
            owner = shown(life.owner)
            raise CommandRefused(
                "not-owner", f"node {command.node} is {owner}'s, the record another's"
            )

    def _create(self, command: NodeCommand, now_ms: int) -> KnownNode:
        name = latin(command.node.encode())
        if self.find(name, now_ms) is not None:
            raise CommandRefused(
                "node-exists",
                f"node {command.node} exists, or did not long ago; take another name",
            )
        if len(self.lives) >= NODES_MAX:
            raise CommandRefused("too-many-nodes", f"{NODES_MAX} nodes exist, or did not long ago")
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
        """Encode all nodes; the bytes are made anew only after a command changed them."""
        if not self._text:
            lives = [(name, o.id, o.owner, o.destroyed_ms) for name, o in self.lives.items()]
            self._text = json.dumps([self.born, lives], separators=(",", ":"))
        return self._text.encode()

    def load(self, state: bytes) -> None:
        """Restore the nodes from `state`."""
        self._text = state.decode()
        self.born, lives = json.loads(self._text)
        self.lives = {name: KnownNode(*rest) for name, *rest in lives}

    def _forgotten(self, life: KnownNode, now_ms: int) -> bool:
        return 0 <= life.destroyed_ms < now_ms - self.remembered_ms


def latin(name: bytes) -> str:
    """Return a name for the protocol: a character for each byte, so that texts sort as bytes do."""
    return name.decode("latin-1")


def raw(name: str) -> bytes:
    """Return the inverse of :func:`latin`."""
    return name.encode("latin-1")


def shown(name: str) -> str:
    """Return a name of the protocol for people."""
    return raw(name).decode(errors="backslashreplace")


def bare(node: str) -> str:
    """Return the name of a node of the protocol."""
    return node.partition(":")[2]
