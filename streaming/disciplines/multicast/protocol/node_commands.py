"""Commands about nodes, carried out by a shard in the orders of clocks or the counter.

All shards see all commands in one order, those of the commands topic before a batch's records and
those of inputs among them, at the batch's time, so each keeps the same list of nodes. What has a
place among messages, a destruction and the release that a record of an input asks for, goes into
its sender's line (`CommandInLine`); the rest takes effect at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from sequencer.multicast import Destruction, Release, Released, Task
from sequencer.multicast.protocol.nodes import OwnedNodes
from sequencer.multicast.protocol.words import let_go
from streaming.arrow import output
from streaming.disciplines.commands import CommandRefused, place_of
from streaming.disciplines.multicast.commands import (
    DESTROY,
    RELEASE,
    NodeCommand,
    command_id,
    read_command,
    refusal,
    signed,
)
from streaming.disciplines.multicast.nodes import KnownNode, Nodes, bare, latin, shown
from streaming.disciplines.multicast.plan import MulticastPlan
from streaming.disciplines.multicast.protocol.peers import Peers
from streaming.disciplines.multicast.protocol.route import Homes
from streaming.disciplines.multicast.protocol.turn import Turn


class CommandInLine(NamedTuple):
    """A command in its sender's line: ``peer`` releases its handle; None: destroy the node."""

    node: str
    sender: str
    peer: str | None = None

    def task(self, number: int) -> Task:
        """Return the protocol's task for this command, under this number."""
        if self.peer is None:
            return Destruction(number, self.sender, self.node)
        return Release(number, self.sender, self.peer, self.node)


class NodeCommands:
    """A shard's part in commands: it updates its nodes, and answers its own commands."""

    def __init__(
        self, plan: MulticastPlan, shard: int, homes: Homes, peers: Peers, nodes: Nodes
    ) -> None:
        self.plan = plan
        self.shard = shard
        self.homes = homes
        self.peers = peers
        self.nodes = nodes

    def forget(self, now: Turn) -> None:
        """Forget the nodes whose time is over; call it before commands.

        Their keepers drop them in `drop_forgotten`, not before the destruction has its stamp: the
        service may have been stopped for longer than a node is remembered.
        """
        for life in self.nodes.forget(now.batch_ms):
            keeper = self.peers.bus.keeper(life.owner)
            if self._is_here(keeper):
                self.peers.touch(keeper)

    def drop_forgotten(self) -> None:
        """Let the keepers that this step touched drop forgotten nodes that are destroyed."""
        for party in self.peers.touched_parties():
            for node in party.nodes.all_destroyed() if party.needed else ():
                life = self.nodes.lives.get(bare(node))
                if life is None or life.id != node:
                    party.nodes.forget(node)

    def carry_out(self, row: Mapping[str, Any], op: str | None, now: Turn) -> CommandInLine | None:
        """Carry out one command; return what goes into a line of this shard.

        ``op``: the operation in an input record's header. The shard of the node's owner answers a
        destruction, when it has its stamp; the shard of the peer a release; the first shard the
        rest.
        """
        more: dict[str, Any]
        try:
            command = read_command(row["value"], op)
            if op is not None:
                self.nodes.require_owner(command, row["key"], now.batch_ms)
            life = self.nodes.do(command, now.batch_ms)
        except CommandRefused as refused:
            more = refusal(row["value"], op, refused)
        else:
            if command.op == DESTROY:
                return CommandInLine(life.id, life.owner) if self._is_here(life.owner) else None
            if command.op == RELEASE:
                return self._release(command, life, row, op, now)
            self._with_keeper(life, OwnedNodes.create)
            more = command.repeated()
        if self.shard == 0:
            self.answer(row, more, now)
        return None

    def answer(self, row: Mapping[str, Any], more: Mapping[str, Any], now: Turn) -> None:
        """Answer the command in a row of RECORD."""
        place, asked_as = place_of(row, self.plan), command_id(row["value"])
        more = {**more, **signed(row["value"])}
        now.events.append(output.answer(self.plan.pipeline, place, asked_as, now.ms, more))

    def ended(self, row: Mapping[str, Any], task: Destruction, stamp: Any, now: Turn) -> None:
        """Answer a destruction that has its stamp."""
        timestamp, owner = stamp
        node = {"op": DESTROY, "node": shown(bare(task.node))}
        self.answer(row, {**node, "timestamp": timestamp, "from": shown(owner)}, now)

    def released(self, row: Mapping[str, Any], peer: str, what: Released, now: Turn) -> None:
        """Answer a release that a peer of this shard dequeued, and notify the node's keeper."""
        self.let_go(now, peer, what.node, what.count)
        place, asked_as, more = json.loads(row["value"])
        timestamp, sender = what.stamp
        said: dict[str, Any] = {"op": RELEASE, "node": shown(bare(what.node)), "peer": shown(peer)}
        said |= {"timestamp": timestamp, "from": shown(sender)}
        more = {**said, **self.peers.place(peer), **more}
        now.events.append(output.answer(self.plan.pipeline, place, asked_as, now.ms, more))

    def let_go(self, now: Turn, peer: str, node: str, registered: int) -> None:
        """Release a peer's handle to a node, which may be forgotten by now."""
        life = self.nodes.lives.get(bare(node))
        if life is not None and life.id == node:
            keeper, clock = self.peers.bus.keeper(life.owner), self.peers.bus.party(peer).clock
            now.let_go += let_go(peer, keeper, node, registered, clock)

    def _is_here(self, name: str) -> bool:
        return self.homes[name] == self.shard

    def _with_keeper(self, life: KnownNode, change: Callable[[OwnedNodes, str], None]) -> None:
        """Change the nodes of the party that keeps a node, if it is on this shard."""
        bus = self.peers.bus
        if self._is_here(bus.keeper(life.owner)):
            change(bus.kept_nodes(life.owner), life.id)

    def _release(
        self,
        command: NodeCommand,
        life: KnownNode,
        row: Mapping[str, Any],
        op: str | None,
        now: Turn,
    ) -> CommandInLine | None:
        """Release a peer's handle: at once, or in the line of the sender that requests it.

        A record without a key has no sender.
        """
        peer = latin(command.other.encode())
        if op is not None and row["key"] is not None:
            sender = latin(row["key"])
            return CommandInLine(life.id, sender, peer) if self._is_here(sender) else None
        if self._is_here(peer):
            more: dict[str, Any] = command.repeated()
            if place := self.peers.place(peer):
                more |= place
                keeper = self.peers.bus.keeper(life.owner)
                now.let_go += self.peers.bus.party(peer).release(life.id, keeper)
            self.answer(row, more, now)
        return None


def placed_row(record: pa.Table, placed: CommandInLine, plan: MulticastPlan) -> pa.Table:
    """Return the record that a shard keeps for a placed command.

    Another shard, which does not see inputs' places, answers a release: so the fields that the
    answer repeats are the record's value.
    """
    if placed.peer is None:
        return record
    (row,) = record.to_pylist()
    answer = json.dumps([place_of(row, plan), command_id(row["value"]), signed(row["value"])])
    at = record.schema.get_field_index("value")
    value = pa.array([answer.encode()], record.schema.field(at).type)
    return record.set_column(at, record.schema.field(at), value)
