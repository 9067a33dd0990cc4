"""Accounting that the disciplines `group` and `multicast` share: rejects, and where inputs went."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from sequencer.judging.invariants import SENDER_ORDER
from streaming.places import Place
from streaming.verify.added import Reject, reject
from streaming.verify.columns import Column, Progress, paced
from streaming.verify.commands import Event, coordinates
from streaming.verify.faults import Verdict
from streaming.verify.histories import Histories, text
from streaming.verify.inputs import Ends, Inputs, Matching
from streaming.verify.logs import Names, Values
from streaming.verify.merge import Pairs
from streaming.verify.records import Record

REFUSALS = ("too-large", "refused")
"""Reasons of what the output does not take: of a reject, or of an event `undelivered`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the judge must know of the pipeline's configuration.

    ``partitions``: of each output topic. ``due``: for each input and command partition the offset
    below which everything has had its time, so that what is missing is a fault, above it is held;
    None: everything has. ``now_ms``: when the topics were read; removed names are remembered for
    ``retire_after_ms``. ``input_commands``: what inputs may ask for. ``cause_header``: the header
    of inputs in which senders name the deliveries that were read before, by anyone, as
    `topic/partition@offset`, with commas between.
    """

    pipeline: str
    output: str
    partitions: Mapping[str, int]
    header_prefix: str = ""
    repeats_allowed: bool = False
    retire_after_ms: int = 0
    now_ms: int = 0
    due: Ends = None
    cause_header: str = ""
    input_commands: Collection[str] = ()
    progress: Progress = lambda *_: None


@dataclass(frozen=True, slots=True)
class Material:
    """The records of the pipeline's topics, each partition's in order. Read once, in this order."""

    outputs: Iterable[Record]
    rejects: Iterable[Record]
    events: Iterable[Record]
    commands: Iterable[Record]
    inputs: Iterable[Record]


@dataclass(frozen=True, slots=True)
class Messages:
    """What the judge knows of each message, under its number: names, and a hash of its bytes."""

    contents: Column
    name: Callable[[int], str]


def read_rejects(verdict: Verdict, records: Iterable[Record], prefix: str) -> list[Reject]:
    """What the rejects say."""
    rejects = []
    for record in records:
        one = reject(record, prefix)
        if one is None:
            verdict.find("bad-output", f"{record} lacks the reject headers")
        else:
            rejects.append(one)
    return rejects


def judge_rejects(
    verdict: Verdict,
    inputs: Inputs,
    rejects: list[Reject],
    fits: Callable[[int, str], bool],
    *,
    repeats: bool,
) -> None:
    """Each reject names an input, has its bytes and a reason that ``fits`` it; none comes twice."""
    seen: dict[Place, int] = {}
    for rejected in rejects:
        if rejected.origin in seen:
            if not repeats or seen[rejected.origin] != hash((rejected.content, rejected.reason)):
                verdict.find(
                    "reject-repeat", f"{rejected.where}: {rejected.origin} was rejected before"
                )
            continue
        seen[rejected.origin] = hash((rejected.content, rejected.reason))
        record = inputs.find(rejected.origin)
        if record is None:
            verdict.find(
                "invented", f"{rejected.where} names the input {rejected.origin}: there is none"
            )
            continue
        inputs.rejected[record] = 1
        cut = rejected.without_value or rejected.without_all
        if not cut and inputs.content[record] != rejected.content:
            verdict.find("reject-altered", f"{rejected.where} differs from {inputs.where(record)}")
        if not fits(record, rejected.reason):
            witness = f"{rejected.where}: {rejected.reason} does not fit {inputs.where(record)}"
            verdict.find("wrong-reason", witness)


def match(
    verdict: Verdict,
    inputs: Inputs,
    order: Iterable[int],
    messages: Messages,
    histories: Histories,
    settings: Settings,
) -> tuple[Column, set[int]]:
    """The input of each message (-1: none) and the messages whose input is not certain.

    ``order``: the messages, those of one sender in the order that the service gave them.
    """
    matching = Matching(inputs)
    of = Column(len(messages.contents), -1)
    unsure = set()
    for message in paced(order, "matching messages", len(of), settings.progress):
        content = messages.contents[message]
        of[message] = matching.take(content, message)
        if content in matching.ambiguous:
            unsure.add(message)
        if of[message] < 0:
            kind, witness = _without_input(inputs, message, messages, histories)
            verdict.find(kind, witness)
    if still_open := matching.open_contents(settings.due):
        contents = enumerate(messages.contents)
        unsure.update(message for message, content in contents if content in still_open)
    return of, unsure


def refused_copies(
    verdict: Verdict, inputs: Inputs, events: Iterable[Event], histories: Histories
) -> dict[int, set[bytes]]:
    """By input, the subscribers for whom the output did not take it, as events say."""
    copies: dict[int, set[bytes]] = {}
    for event in events:
        if event.kind != "undelivered":
            continue
        place = coordinates(event)
        record = inputs.find(place) if place is not None else None
        key = str(event.fields.get("destination", "")).encode()
        if record is None or event.fields.get("reason") not in REFUSALS:
            verdict.find("wrong-undelivered", f"{event.where}: there is no such message")
            continue
        message = inputs.message[record]
        if message >= 0 and histories.has(key, message):
            verdict.find("wrong-undelivered", f"{event.where}: {text(key)} got it")
        copies.setdefault(record, set()).add(key)
    return copies


def _without_input(
    inputs: Inputs, message: int, messages: Messages, histories: Histories
) -> tuple[str, Callable[[], str]]:
    """What is wrong with a message that no input is left for, and a witness."""
    record = inputs.same(messages.contents[message])
    kind = "delivered-twice"
    if record < 0:
        kind = "invented"
    elif inputs.rejected[record]:
        kind = "rejected-and-delivered"

    def twice() -> str:
        text = f"{messages.name(message)}, got by {histories.first_place(message)}"
        if record < 0:
            return f"{text}: no input has this sender, value, headers and timestamp"
        if inputs.rejected[record]:
            return f"{text}: its input {inputs.where(record)} was rejected"
        taken = inputs.message[record]
        other = f"{messages.name(taken)}, got by {histories.first_place(taken)}"
        return f"{text}: its input {inputs.where(record)} is {other}, too"

    return kind, twice


def causal_pairs(
    verdict: Verdict,
    inputs: Inputs,
    histories: Histories,
    messages: int,
    due: Ends,
    causes: Iterable[tuple[Place, Place]],
) -> Pairs:
    """Messages (cause, effect): ``causes`` and what senders name in a header as read before.

    What an input names may lie behind the outputs as they were read, unless the input is ``due``.
    ``messages``: how many there are.
    """
    pairs = Pairs(messages)
    for pair in inputs.pairs(causes):
        pairs.add(*pair)
    places: Names[Place] = Names(Values(), Column(), Column())
    for _, _, place in _named(inputs):
        if place is not None and places.find(place) < 0:
            places.append(place)
    lying = histories.messages_at(places)
    for record, name, place in _named(inputs):
        message = -1 if place is None else lying[places.find(place)]
        if message >= 0:
            if inputs.message[record] >= 0:
                pairs.add(message, inputs.message[record])
            continue
        if histories.repeats_allowed or not inputs.due(record, due):
            continue  # it may be the place of a repeat, or a new one
        witness = f"{inputs.where(record)} names {text(name)}: no delivery lies there"
        verdict.find("bad-cause", witness)
    return pairs


def _named(inputs: Inputs) -> Iterator[tuple[int, bytes, Place | None]]:
    """Yield the causes that inputs name: record, what it names, and the place if it is one."""
    for at, record in paced(enumerate(inputs.causes)):
        for name in inputs.causes_named[at].split(b","):
            yield record, name, _place(name)


def _place(named: bytes) -> Place | None:
    """The place that is written `topic/partition@offset`."""
    parts = PLACE.fullmatch(named)
    if parts is None:
        return None
    topic, partition, offset = parts.groups()
    return topic.decode(), int(partition), int(offset)


PLACE = re.compile(rb"([A-Za-z0-9._-]{1,249})/(\d{1,9})@(\d{1,18})")


class SenderLines:
    """A sender's messages in the order in which they stand in its input partition."""

    def __init__(self, verdict: Verdict, inputs: Inputs, of: Column, unsure: set[int]) -> None:
        self.verdict = verdict
        self.inputs = inputs
        self.of = of
        self.unsure = unsure

    def judge(
        self,
        order: Iterable[int],
        line: Callable[[int], object],
        names_of: Callable[[int, int], str],
    ) -> None:
        """Whether messages of one ``line`` come in the order of sending, partition by partition.

        ``names_of`` gives the words for two messages of which the first was sent later.
        """
        latest: dict[tuple[object, bytes | None, int], int] = {}
        inputs = self.inputs
        for message in paced(order):
            record = self.of[message]
            if record < 0 or message in self.unsure:
                continue
            name = (line(message), inputs.senders[record], inputs.partition[record])
            before = latest.get(name)
            if before is not None and inputs.offset[self.of[before]] > inputs.offset[record]:
                sent = f"{inputs.where(record)} was sent before {inputs.where(self.of[before])}"
                self.verdict.find(SENDER_ORDER, f"{sent}, but {names_of(before, message)}")
                continue
            latest[name] = message
