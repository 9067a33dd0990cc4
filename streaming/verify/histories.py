"""What each key of the output got, in its order: `sequence`, repeats, places, one order of all."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from sequencer.judging.cycles import DeliveryGraph, Hop, effect_first, inverted_pair, shortest_cycle
from sequencer.judging.invariants import ACYCLIC, CAUSALITY, PAIRWISE_ORDER
from streaming.arrow.key_text import escaped
from streaming.places import Place
from streaming.verify.columns import Column, Index, Progress, Strand, paced
from streaming.verify.faults import Verdict
from streaming.verify.homes import Homes
from streaming.verify.logs import Names
from streaming.verify.merge import Merge, Pairs, Row
from streaming.verify.records import Record


class Contents:
    """Hashes of contents by `sequence`: one strand for each run of numbers without a hole."""

    __slots__ = ("_runs", "_starts", "_store")

    def __init__(self, store: Column) -> None:
        self._store = store
        self._starts: list[int] = []
        self._runs: list[Strand] = []

    def take(self, sequence: int, content: int) -> int | None:
        """Note a content; the one that was there before, which stays, if there is one."""
        run = bisect_right(self._starts, sequence)
        if run:
            contents, at = self._runs[run - 1], sequence - self._starts[run - 1]
            if at < len(contents):
                return contents[at]
            if at == len(contents):
                contents.append(content)
                return None
        self._starts.insert(run, sequence)
        self._runs.insert(run, Strand(self._store))
        self._runs[run].append(content)
        return None


class History:
    """One key's deliveries: numbers of messages, and where each lies (a partition's number)."""

    __slots__ = (
        "contents", "incarnation", "key", "messages", "number", "offsets", "partitions", "past",
        "sequence",
    )  # fmt: skip

    def __init__(self, key: bytes, number: int, store: Column) -> None:
        self.key = key
        self.number = number
        self.messages = Strand(store)
        self.partitions = Strand(store)
        self.offsets = Strand(store)
        self.incarnation = -1
        self.sequence = -1
        self.contents = Contents(store)
        self.past: dict[int, Contents] = {}


class Histories:
    """All deliveries by key, taken record by record."""

    def __init__(
        self, verdict: Verdict, partitions: Mapping[str, int], *, repeats_allowed: bool
    ) -> None:
        self.verdict = verdict
        self.repeats_allowed = repeats_allowed
        self.by_key: dict[bytes, History] = {}
        self.count = 0
        self._homes = Homes(verdict, partitions)
        self._numbers: dict[tuple[str, int], int] = {}
        self._names: list[tuple[str, int]] = []
        self._store = Column()
        self._got = Index()
        self._indexed: set[int] = set()

    def take(self, record: Record, key: bytes, sequence: int, incarnation: int) -> History | None:
        """Hold a delivery against those before it; its history, or None for a repeat."""
        self._homes.take(record, key)
        history = self.by_key.get(key)
        if history is None:
            history = self.by_key[key] = History(key, len(self.by_key), self._store)
        if not self._first(history, record, sequence, incarnation):
            return None
        self.count += 1
        return history

    def _first(self, history: History, record: Record, sequence: int, incarnation: int) -> bool:
        """Return whether (key, incarnation, sequence) is new; holes and steps back are faults."""
        if incarnation > history.incarnation:
            history.past[history.incarnation] = history.contents
            history.incarnation, history.sequence = incarnation, -1
            history.contents = Contents(self._store)
        fallen = incarnation < history.incarnation
        contents = history.contents
        if fallen:
            contents = history.past.setdefault(incarnation, Contents(self._store))
        content = hash(record.content)
        before = contents.take(sequence, content)
        if before is not None:
            if before != content:
                text = f"{record}: sequence {sequence} of incarnation {incarnation}"
                self.verdict.find("rewritten", f"{text} had another content")
            elif not self.repeats_allowed:
                self.verdict.find("repeat", f"{record}: sequence {sequence} was there before")
            return False
        if fallen:
            text = f"{record}: incarnation {incarnation} after {history.incarnation}"
            self.verdict.find("disorder", text)
            return True
        if sequence != history.sequence + 1:
            kind = "hole" if sequence > history.sequence else "disorder"
            text = f"{record}: sequence {sequence} follows {history.sequence}"
            self.verdict.find(kind, text)
        history.sequence = max(sequence, history.sequence)
        return True

    def note(self, history: History, record: Record, message: int) -> None:
        """Put a message behind the others of its key."""
        name = (record.topic, record.partition)
        at = self._numbers.get(name)
        if at is None:
            at = self._numbers[name] = len(self._names)
            self._names.append(name)
        history.messages.append(message)
        if history.number in self._indexed:
            self._got.put(hash((history.number, message)), 0)
        history.partitions.append(at)
        history.offsets.append(record.offset)

    def has(self, key: bytes, message: int) -> bool:
        """Whether a key got a message; what this takes is only spent where something is wrong."""
        history = self.by_key.get(key)
        if history is None:
            return False
        if history.number not in self._indexed:
            self._indexed.add(history.number)
            for each in paced(history.messages):
                self._got.put(hash((history.number, each)), 0)
        return self._got.get(hash((history.number, message))) == 0

    def messages_at(self, places: Names[Place]) -> Column:
        """Return the message that lies at each of these places of the output, or -1."""
        lying = Column(len(places), -1)
        for history in self.by_key.values() if len(places) else ():
            columns = zip(history.partitions, history.offsets, history.messages, strict=True)
            for partition, offset, message in paced(columns):
                place = places.find((*self._names[partition], offset))
                if place >= 0:
                    lying[place] = message
        return lying

    def where(self, key: bytes, message: int) -> str:
        """Where a key got a message, for people."""
        history = self.by_key[key]
        at = history.messages.index(message)
        topic, partition = self._names[history.partitions[at]]
        return f"{topic}/{partition}@{history.offsets[at]}"

    def first_place(self, message: int) -> str:
        """Return a message's first receiver and its place, as text; linear time."""
        for key in self.by_key:
            if self.has(key, message):
                return f"{text(key)} at {self.where(key, message)}"
        return "nobody"

    def orders(
        self,
        messages: int,
        name: Callable[[int], str],
        late: Iterable[tuple[bytes, list[int]]],
        pairs: Pairs,
        progress: Progress = lambda *_: None,
    ) -> None:
        """Return whether one order of all messages, this many, agrees with every key's.

        ``late``: for a key, messages in their order that it must get and has not got. They will
        come after all that it has, so they count as rows behind its last one. ``pairs``:
        (cause, effect) of messages; nobody may get the effect first.
        """
        self._homes.finish()
        rows: dict[tuple[bytes, int], Row] = {
            (key, 0): history.messages for key, history in self.by_key.items()
        }
        for number, (key, missing) in enumerate(late, 1):
            history = self.by_key.get(key)
            if history is not None and len(history.messages):
                rows[key, number] = [history.messages[-1], *missing]
        if next(Merge(rows, messages, pairs).knots(progress), None) is None:
            return
        for graph, knots in Merge(rows, messages, Pairs(0)).knots(progress):
            for knot in knots:
                hops = inverted_pair(knot) or shortest_cycle(knot, 3)
                receivers: list[Any] = graph.receivers
                is_missing = any(receivers[hop.receiver][1] for hop in hops)
                kind = PAIRWISE_ORDER if len(hops) == 2 else ACYCLIC
                witness = partial(self._hops, graph, hops, name)
                self.verdict.find("missing-delivery" if is_missing else kind, witness)
        if len(pairs):
            self._judge_causes(partial(Merge, rows, messages, pairs), name)

    def _judge_causes(
        self, merge: Callable[[], Merge[tuple[bytes, int]]], name: Callable[[int], str]
    ) -> None:
        for _, knots in merge().knots():
            for knot in knots:
                pairs = ((cause, each) for cause, those in knot.effects.items() for each in those)
                if DeliveryGraph({}, pairs).knots():
                    wrong = "the causes form a cycle: no order can agree with them"
                    self.verdict.find("bad-cause", wrong)
                    return
        for graph, knots in merge().knots():
            for knot in knots:
                causal = effect_first(knot) if knot.effects else None
                if causal:
                    self.verdict.find(CAUSALITY, partial(self._hops, graph, causal, name))

    def _hops(self, graph: DeliveryGraph, hops: Iterable[Hop], name: Callable[[int], str]) -> str:
        facts = []
        messages: list[Any] = graph.messages
        receivers: list[Any] = graph.receivers
        for hop in hops:
            first, second = messages[hop.first], messages[hop.second]
            if hop.receiver < 0:
                facts.append(f"{name(first)} happened before {name(second)}")
                continue
            key, late = receivers[hop.receiver]
            if late and not self.has(key, first):
                facts.append(f"{text(key)} has neither {name(first)} nor, after it, {name(second)}")
                continue
            got = f"{text(key)} got {name(first)} ({self.where(key, first)})"
            if late:
                facts.append(f"{got} and has not got {name(second)}")
            else:
                facts.append(f"{got} before {name(second)} ({self.where(key, second)})")
        return "; ".join(facts)


def text(key: bytes) -> str:
    """A name in bytes for people."""
    return escaped(key)
