"""The type of a discipline: each package defines one value, which `streaming.disciplines` lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from streaming.disciplines.plan import Plan
from streaming.disciplines.reshard import Reshard, rekeyed
from streaming.disciplines.state_row import StateRow
from streaming.settings.pipeline import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streaming.disciplines.source import Source

Described = list[dict[str, Any]]
"""A dictionary for each channel, subscriber or peer."""

LISTED_MAX = 1_000
"""The most waiting keys of each shard that batches report, the longest waits first."""
CUT = "-"
"""Stands before the number of keys, in a report that lists fewer because its keys are large."""


def listed_in(reports: Iterable[str]) -> int:
    """Return how many of each shard's longest waits the reports have, or all if these are fewer."""
    return min((int(each.partition(CUT)[2]) for each in reports if CUT in each), default=LISTED_MAX)


Reader = Callable[[int, StateRow], Iterable[dict[str, Any]]]
"""Describes a shard, given its key and its state."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A part of a pipeline's identity, which its checkpoint fixes.

    ``remedy``: what to do if the configuration has another value now; without one the checkpoint's
    value is used, and ``instead`` says how to change it.
    """

    remedy: str = ""
    instead: str = ""


EXCHANGED_BYTES_MAX = 64_000_000
"""The most bytes of records that shards which send each other messages keep, and read in a batch.
Spark passes their state through its JVM, whole, with every batch, and some copies of it have to
find room there: with its 2 GB and a backlog of multicasts of 1 MB, 64 MB went well for as long as
it was tried, and more than about 100 MB did not."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Limits of a batch's input; without any, the service's limits apply.

    At most ``records_max`` input records, and as many as will give about ``deliveries_max``
    deliveries, by the ratio of the batches before. While more than ``held_high`` deliveries wait,
    until fewer than ``held_low`` do, inputs are read a few records at a time: a backlog stays in
    Kafka. At most about ``bytes_max`` bytes, less what shards keep; one record in any case.
    """

    records_max: int | None = None
    deliveries_max: int | None = None
    held_high: int | None = None
    held_low: int = 0
    bytes_max: int | None = None


@dataclass(frozen=True, slots=True)
class StateMove:
    """How a pipeline's state is moved to other shards (`sequencer rescale`).

    ``timed``: whether shards have timers.
    """

    reshard: Reshard = rekeyed
    timed: bool = False


def _nobody(_settings: Any, _texts: Iterable[str], _most: int | None) -> Described:
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Discipline:
    """One discipline. Its functions import Spark or a protocol only when they are called.

    ``settings``: the model of its configuration. ``key``: the meaning of output keys. ``shown``:
    the columns of `sequencer inspect`; ``counted``: further counts of `sequencer status`;
    ``reasons``: those of rejects; ``events``: the kinds of its events besides answers to commands.

    ``operators`` returns the names of the modules that workers run, which are imported before they
    start. ``fixed``: the parts of the identity by name; ``identity`` returns their JSON values.
    ``plan`` makes the plan from the settings, the identity and the fields that all plans share.
    ``build`` makes the query between source and sink (rows of `arrow.output.OUTPUT`). ``describe``
    reads state back, ``reshard`` moves it to other shards. ``waiting`` returns the keys that wait,
    longest first, from shards' reports (`arrow.totals`), all or this many; by default none.
    ``all_waiting`` makes such a report from a shard's state. ``disorder``: whether its shards
    measure how far out of order messages arrive. ``rows``: whether Spark has to see each record.
    ``understand`` raises ConfigError where Spark does not understand a SQL expression of a plan.
    """

    name: str
    settings: type[Pipeline]
    key: str
    shown: tuple[str, ...]
    counted: tuple[str, ...] = ()
    reasons: tuple[str, ...]
    events: tuple[str, ...]
    operators: Callable[[Any], tuple[str, ...]]
    fixed: Mapping[str, Fixed] = field(default_factory=dict)
    identity: Callable[[Any], dict[str, Any]]
    plan: Callable[[Any, Mapping[str, Any], dict[str, Any]], Plan]
    build: Callable[[Source, Any], DataFrame]
    describe: Callable[[Any], Reader]
    reshard: Callable[[Any], StateMove]
    waiting: Callable[[Any, Iterable[str], int | None], Described] = _nobody
    all_waiting: Callable[[Any, int | None], Callable[[int, StateRow], str]] | None = None
    disorder: bool = False
    pace: Callable[[Any], Pace] = lambda _settings: Pace()
    rows: Callable[[Any], bool] = lambda _settings: False
    understand: Callable[[SparkSession, Any], None] = lambda _session, _plan: None
