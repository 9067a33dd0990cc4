"""Nodes of discipline `multicast`: owners and lives, from the commands and their answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from streaming.places import Place
from streaming.verify.commands import DONE, Command, answered_at, answered_ms, may_be_forgotten
from streaming.verify.faults import Verdict
from streaming.verify.histories import text

CREATE, DESTROY, RELEASE = "create-node", "destroy-node", "release"
OPS: dict[str, tuple[str, str | None]] = {
    CREATE: ("node", "owner"),
    DESTROY: ("node", None),
    RELEASE: ("node", "peer"),
}

LIST_MIN = 1_000
"""As many destinations, and as many handles, every service must take."""
NAME_BYTES_MAX = 10_000
"""A longer destination is bad."""

Stamp = tuple[int, bytes]
ALIVE, DEAD, EITHER = "alive", "destroyed", "either"


@dataclass(slots=True)
class NodeLife:
    """A node from its creation to its destruction; ``end`` None: none is known.

    ``ending``: its destruction has no answer yet. ``ended``: batch time of the answer;
    ``asked_ms``: time of the command, which by clocks or the counter is answered later.
    """

    owner: bytes
    end: Stamp | None = None
    ending: bool = False
    ended: str | None = None
    asked_ms: int = 0


@dataclass(slots=True)
class Node:
    """A node's lives, one after the other."""

    lives: list[NodeLife] = field(default_factory=list)

    def state(self, stamp: Stamp) -> str:
        """What it was for a message of this stamp.

        EITHER where the topics do not tell: a creation has no stamp, a destruction without an
        answer has none yet.
        """
        alive = [life for life in self.lives if life.end is None or stamp < life.end]
        if not alive:
            return DEAD
        if alive[0] is not self.lives[0] or alive[0].ending:
            return EITHER
        return ALIVE

    def owners(self, stamp: Stamp) -> set[bytes]:
        """Who may own it then."""
        return {life.owner for life in self.lives if life.end is None or stamp < life.end}

    @property
    def destroyed(self) -> bool:
        """Whether it was ever destroyed, or is about to be."""
        return any(life.end or life.ending for life in self.lives)


def replay(
    verdict: Verdict, commands: Mapping[str, Sequence[Command]], remembered_ms: int
) -> tuple[dict[bytes, Node], dict[Stamp, Command]]:
    """The nodes through all commands, and the destructions by stamp; wrong answers are found."""
    nodes: dict[bytes, Node] = {}
    ends: dict[Stamp, Command] = {}
    for name, changes in commands.items():
        node = Node()
        there, certain = False, True
        created = {answered_at(each) for each in changes if each.op == CREATE and each.done}
        for command in _in_effect(changes, remembered_ms):
            if not command.done:
                continue
            if command.op == RELEASE:  # another shard answers it than the creation of its batch
                is_clear = certain and answered_at(command) not in created
                _release(verdict, command, node if is_clear else None)
                continue
            certain = certain and command.answered
            creates = command.op == CREATE
            fits = there != creates
            if not fits and not command.answered:
                continue  # it will be refused
            if certain and not fits:
                state = "exists" if there else "is not there"
                witness = f"{command.answers[0].where} says {DONE}, but node {name} {state} then"
                verdict.find("wrong-answer", f"{witness}: {command.where} had to be refused")
                continue
            there = creates
            if creates:
                node.lives.append(NodeLife(command.others[0].encode()))
            elif node.lives:
                _end(verdict, command, node.lives[-1], ends, is_its=certain)
        if node.lives:
            nodes[b"@" + name.encode()] = node
    return nodes, ends


def _in_effect(changes: Sequence[Command], remembered_ms: int) -> Iterator[Command]:
    """Yield a node's commands, destructions before the creations that they made room for.

    By clocks or the counter a destruction is answered when it has its stamp. If the service stood
    still meanwhile, for longer than a destroyed node is remembered, its name was free before.
    """
    following, created = deque(changes), None
    while following:
        position, first = 0, following[0]
        if created is not None and first.op == CREATE and first.done and first.answered:
            position = _room_for(following, created, remembered_ms)
        command = following[position]
        del following[position]
        if command.done and command.op != RELEASE:
            created = command if command.op == CREATE else None
        yield command


def _room_for(following: deque[Command], before: Command, remembered_ms: int) -> int:
    """Return the place of the destruction before the creation that is first; 0: there is none."""
    if not may_be_forgotten(answered_at(before), remembered_ms, answered_ms(following[0])):
        return 0
    least: dict[tuple[str, int], Place] = {}
    for at, command in enumerate(following):
        partition = command.place[:2]
        least[partition] = min(command.place, least.get(partition, command.place))
        if command.op == DESTROY and command.done and command.place == least[partition]:
            return at
    return 0


def _release(verdict: Verdict, command: Command, node: Node | None) -> None:
    """A handle can be given back to a node that is or was; None: nobody knows."""
    if command.answered and node is not None and not node.lives:
        witness = f"{command.answers[0].where} says {DONE}, but there was no node {command.subject}"
        verdict.find("wrong-answer", f"{witness}: {command.where} had to be refused")


def _end(
    verdict: Verdict,
    command: Command,
    life: NodeLife,
    ends: dict[Stamp, Command],
    *,
    is_its: bool,
) -> None:
    """Note a node's destruction; ``is_its``: the life is that of the node, for sure."""
    life.asked_ms = command.timestamp
    if not command.answered:
        life.ending, life.ended = True, ""
        return
    answer = command.answers[0]
    if command.in_input and command.sender != life.owner:
        witness = f"{answer.where} says {DONE}, but the node is another's"
        verdict.find("wrong-answer", f"{witness}: {command.where} had to be refused")
    life.ended = str(answer.fields.get("at", ""))
    timestamp, sender = answer.fields.get("timestamp"), answer.fields.get("from")
    if type(timestamp) is not int or not isinstance(sender, str):
        witness = f"{answer.where} has no timestamp and from, which {command.where} must get"
        verdict.find("wrong-answer", witness)
        life.ending = True
        return
    stamp = (timestamp, sender.encode())
    if is_its and stamp[1] != life.owner:
        witness = f"{answer.where} says that {sender} destroyed a node of {text(life.owner)}"
        verdict.find("wrong-answer", witness)
    if stamp in ends:
        witness = f"{answer.where} has the timestamp and from of {ends[stamp].answers[0].where}"
        verdict.find("wrong-answer", witness)
    ends[stamp] = command
    life.end = stamp


@lru_cache(maxsize=100_000)
def names(value: bytes | None) -> tuple[bytes, ...]:
    """The names in a list, each once; none where it is empty or null."""
    return tuple(dict.fromkeys(value.split(b","))) if value else ()


def destination_of(said: object, wanted: tuple[bytes, ...]) -> bytes:
    r"""Return the destination that an event names; it has `\xff` for a byte that is not UTF-8."""
    name = str(said or "").encode(errors="replace")
    if name in wanted:
        return name
    shown = (each for each in wanted if each.decode(errors="backslashreplace") == said)
    return next(shown, name)


def reason_fits(
    nodes: Mapping[bytes, Node], reason: str, wanted: tuple[bytes, ...], handles: tuple[bytes, ...]
) -> bool:
    """Whether a message to ``wanted`` can have been rejected so, as far as the topics show."""
    if is_bad(wanted):
        return reason == "bad-destination"
    if reason in ("destroyed-node", "no-room") and not all(h.startswith(b"@") for h in handles):
        return False  # a handle that is no node's
    if reason == "destroyed-node":
        return all(name in nodes and nodes[name].destroyed for name in wanted)
    if reason == "too-many-destinations":
        return len(wanted) > LIST_MIN
    if reason in ("too-many-handles", "no-room"):
        return len(handles) > (LIST_MIN if reason != "no-room" else 0)
    # A node that is created later, or forgotten again, was none when the message came; nor is a
    # handle one that is not a node.
    doubtful = bool(handles) or any(name.startswith(b"@") for name in wanted)
    return doubtful and reason == "bad-destination"


def is_bad(wanted: tuple[bytes, ...]) -> bool:
    """Return whether a list of destinations is bad whatever nodes there are."""
    return not all(0 < len(name) <= NAME_BYTES_MAX for name in wanted or (b"",))


def wrong_handles(
    nodes: Mapping[bytes, Node],
    stamp: Stamp,
    passed: tuple[bytes, ...],
    valid: bytes | None,
    invalid: bytes | None,
) -> str:
    """What is wrong with the handles of a message of this stamp; empty where nothing is."""
    if valid is None:
        return "the header handles is missing"
    if invalid == b"":
        return "handles-invalid is empty"
    good, bad = set(names(valid)), set(names(invalid))
    if good & bad or good | bad != set(passed):
        listed = "none" if invalid is None else text(invalid)
        return f"they are not divided by {text(valid)} and {listed}"
    for name in passed:
        state = nodes[name].state(stamp) if name in nodes else DEAD
        if state not in (EITHER, ALIVE if name in good else DEAD):
            listed = "valid" if name in good else "invalid"
            return f"{text(name)} is said to be {listed}, but the node was {state} then"
    return ""
