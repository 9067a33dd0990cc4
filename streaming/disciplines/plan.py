"""What the workers of one pipeline need to know: plain data that travels with the functions.

The configuration (`streaming.config`) is what users write; a plan is what remains of it once
everything is resolved: topics, expressions, numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

from streaming.arrow.schemas import RECORD

CONTEXT = "sequencer.batch"
"""Spark's property of a job in which its tasks find the `BatchContext`, as JSON. The functions that
they run are then the same in every batch, and a part of the query that Spark knows."""
DELIVERY = "service.delivery"
"""The key of :attr:`Plan.delivery` in the file."""


@dataclass(frozen=True, slots=True)
class Headers:
    """Names of the headers that the service adds, the configured prefix included."""

    prefix: str = ""

    def __call__(self, name: str) -> str:
        """The header's full name."""
        return self.prefix + name


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What plans of every discipline have.

    ``inputs`` are sorted: a record's topic travels as its number in this list. ``partitions`` gives
    for each topic written to over how many partitions its keys are spread. ``create_topics``:
    whether a topic that turns out to be missing is created, with the settings ``new_topics``.
    ``folder``: the checkpoint's, where it is a folder that all workers see; ``sync``: whether the
    disk has what is written there before it counts; ``large_rows``: that of large rows on their way
    through a batch, "" where these pass Spark. ``compression``: how operators encode record
    batches; empty where the sink has to. ``origin``: whether deliveries have a header that names
    their input record; ``progress``: the topic of progress marks, "" for none. ``taken``: topics
    of other pipelines, where subscribers' own topics must not have their names. ``decided``: the
    fields, in words of JSON, that batches decide by (see :meth:`decisions`). ``counts_pauses``:
    whether it has waits, in which neither pauses count nor the time until all is read
    (`Decisions.note_pause`, `Decisions.unread`). ``part_records_max``, ``part_bytes_max``: a
    transaction of the sink's takes about so much.
    ``renewals``: when all keys got a new incarnation, and the first batch after that, as the
    checkpoint was older than its output; decided by the driver (`streaming.service.histories`).
    ``batches_before``: how many there were before the state was moved, which these count, too.
    """

    discipline: ClassVar[str]
    counts_pauses: ClassVar[bool] = False
    decided: ClassVar[tuple[str, ...]] = ("retire_after_ms", "partitions", "origin")
    sees_all: ClassVar[bool] = False
    """Whether each shard gets every record of a batch, and counts on all others getting it."""
    service: str
    pipeline: str
    inputs: tuple[str, ...]
    output: str
    rejects: str
    events: str
    partitions: dict[str, int]
    headers: Headers = field(default_factory=Headers)
    delivery: Literal["exactly-once", "at-least-once"] = "exactly-once"
    shards: int = 16
    state_partitions: int = 2
    retire_after_ms: int = 7 * 86_400_000
    origin: bool = False
    progress: str = ""
    taken: Sequence[str] = ()
    create_topics: bool = False
    new_topics: dict[str, str] = field(default_factory=dict)
    folder: str = ""
    large_rows: str = ""
    sync: bool = False
    compression: str = ""
    part_records_max: int = 1_000_000
    part_bytes_max: int = 64 * 2**20
    renewals: tuple[tuple[int, int], ...] = ()
    batches_before: int = 0
    producer: dict[str, str | int | float | bool] = field(default_factory=dict, repr=False)

    @property
    def renewed_ms(self) -> int:
        """Keys that began before have a new incarnation, which begins then; 0 for none."""
        return max((at_ms for at_ms, _ in self.renewals), default=0)

    @property
    def reads(self) -> tuple[str, ...]:
        """All topics that the query reads; the inputs come first."""
        return self.inputs

    @property
    def named(self) -> tuple[str, ...]:
        """The inputs where deliveries name their input record, else none."""
        return self.inputs if self.origin else ()

    def decisions(self) -> dict[str, Any]:
        """Return what batches decide by this plan, and may change between two starts.

        In words of JSON; see `streaming.service.decisions`.
        """
        fields = {name: getattr(self, name) for name in self.decided}
        return {**fields, "header_prefix": self.headers.prefix}

    def pinned(self) -> dict[str, str]:
        """Return what a batch that is planned cannot do without, and nobody can decide by batch.

        By its key in the file. A start where one of these is another is refused until that batch is
        done: some partitions may have written it as it was.
        """
        names = {"output": self.output, "rejects": self.rejects, "events": self.events}
        own = {"service.name": self.service, "pipeline": self.pipeline}
        return {**names, **own, DELIVERY: self.delivery}

    def under(self, decisions: Mapping[str, Any]) -> Self:
        """Return this plan with a batch's decisions in place of its own."""
        values = {**self.decisions(), **decisions}
        headers = Headers(values["header_prefix"])
        decided = {name: values[name] for name in self.decided}
        renewals = tuple((at_ms, batch) for at_ms, batch in values.get("renewals", self.renewals))
        before = values.get("batches_before", self.batches_before)
        own = {"headers": headers, "renewals": renewals, "batches_before": before}
        return replace(self, **own, **decided)

    def delivers_to(self, topic: str) -> bool:
        """Return whether what is written to a topic are deliveries."""
        return topic not in (self.rejects, self.events)

    def identifying(self) -> tuple[str, ...]:
        """Return the headers that tell apart the deliveries of a batch that have one key.

        None, where the operators do not know what to do about a delivery that Kafka refuses.
        """
        return ()

    def message_of(self, name: tuple[str | None, ...]) -> tuple[tuple[str | None, ...], str]:
        """Return what identifies a message, and who gets it, by a delivery's name.

        That is its key (base64) and the headers of :meth:`identifying`.
        """
        raise NotImplementedError

    def transactional_id(self, partition: int) -> str:
        """Of the producer that writes for a state partition; unique to it in the Kafka cluster."""
        return f"{self.service}.{self.pipeline}.{partition}"

    @property
    def driver_id(self) -> str:
        """Transactional id, and group, of the driver (`streaming.sink.claim`)."""
        return f"{self.service}.{self.pipeline}.driver"

    @property
    def confirming_id(self) -> str:
        """Transactional id for requests of progress, which fences no writer."""
        return f"{self.service}.{self.pipeline}.confirming"

    def progress_group(self, partition: int) -> str:
        """Group whose committed offset is the last batch that a state partition wrote."""
        return f"{self.service}.{self.pipeline}.{partition}"


def few_shards(common: dict[str, Any]) -> dict[str, Any]:
    """The fields that all plans have, with no more shards than can work at the same time.

    Where shards send each other messages, further ones would only make more trips; where all see
    every record, more copies of it.
    """
    return {**common, "shards": min(common["shards"], common["state_partitions"])}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangePlan(Plan):
    """A pipeline whose shards send each other messages, by way of the topic ``transit``.

    ``input_commands``: what records of inputs may ask for.
    """

    commands: str
    transit: str
    input_commands: Sequence[str] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """The inputs, the commands, the transit topic."""
        return (*self.inputs, self.commands, self.transit)

    @property
    def carried(self) -> tuple[str, ...]:
        """The columns of records that travel between shards."""
        return tuple(RECORD.names)

    def delivers_to(self, topic: str) -> bool:
        """What is in transit is not delivered yet."""
        return topic != self.transit and Plan.delivers_to(self, topic)


@dataclass(frozen=True, slots=True)
class BatchContext:
    """What the driver passes to the tasks of a batch.

    ``query`` names the checkpoint; ``digest`` names what the batch is made from (see
    `streaming.sink.progress`). ``in_doubt`` says that an earlier run may have written this batch,
    ``young`` that it was planned so lately that Kafka would know, ``old`` that Kafka may have
    forgotten all of it since, ``repeated`` that it was planned before the query started.
    ``remembered``: state partitions of which Kafka had progress then, if it is in doubt. ``wrote``
    gives for each state partition the last batch that it is known to have written in this run,
    ``latest`` the last one that it may have written: a later one is another copy's.
    ``decisions`` are those of the batch (see `streaming.service.decisions`). ``newest_ms``: the
    largest incarnation that it, or a batch before it, may give.
    """

    query: str
    batch: int
    in_doubt: bool = False
    wrote: dict[int, int] = field(default_factory=dict)
    digest: str = ""
    repeated: bool = False
    decisions: dict[str, Any] = field(default_factory=dict)
    young: bool = False
    old: bool = False
    latest: dict[int, int] = field(default_factory=dict)
    newest_ms: int = 0
    remembered: list[int] = field(default_factory=list)

    def to_json(self) -> str:
        """One line."""
        pairs = {"wrote": [*self.wrote.items()], "latest": [*self.latest.items()]}
        return json.dumps({**asdict(self), **pairs})

    @classmethod
    def from_json(cls, text: str) -> BatchContext:
        """Return the inverse of :meth:`to_json`."""
        fields = json.loads(text)
        return cls(**{**fields, **{name: dict(fields[name]) for name in ("wrote", "latest")}})


def batch_context() -> BatchContext:
    """Return the context of the batch whose task runs here; an empty one outside of Spark."""
    from pyspark import TaskContext  # noqa: PLC0415  (only a worker has one)

    task = TaskContext.get()
    text = None if task is None else task.getLocalProperty(CONTEXT)
    return BatchContext("", -1) if text is None else BatchContext.from_json(text)
