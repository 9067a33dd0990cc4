"""What a discipline is: one value that its package gives, and `streaming.disciplines` lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from streaming.disciplines.plan import Plan
from streaming.disciplines.reshard import Reshard, rekeyed
from streaming.disciplines.state_row import StateRow
from streaming.settings.pipeline import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streaming.disciplines.source import Source

Described = list[dict[str, Any]]
"""A dictionary for each channel, subscriber or peer."""

LISTED_MAX = 1_000
"""Keys that wait, of each shard, that batches report: those that have waited longest."""

Reader = Callable[[int, StateRow], Iterable[dict[str, Any]]]
"""From a shard's key and its state to what the state says."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A part of a pipeline's identity: what a checkpoint began with.

    ``remedy``: what to do where the configuration says something else now; without one the
    checkpoint's value is used, and ``instead`` says how to change it.
    """

    remedy: str = ""
    instead: str = ""


@dataclass(frozen=True, slots=True)
class Pace:
    """How much of the input a batch takes; nothing here: as much as the service says.

    ``records_max`` input records, and as many as give about ``deliveries_max`` deliveries, going by
    what the batches before gave. Where more than ``held_high`` deliveries wait, inputs are read a
    few records at a time until fewer than ``held_low`` do: a backlog stays in Kafka.
    """

    records_max: int | None = None
    deliveries_max: int | None = None
    held_high: int | None = None
    held_low: int = 0


@dataclass(frozen=True, slots=True)
class StateMove:
    """How a pipeline's state is moved to other shards (`sequencer rescale`).

    ``timed``: whether shards have timers. ``exchanges``: whether shards send each other messages:
    where some are on their way, there must stay as many of them.
    """

    reshard: Reshard = rekeyed
    timed: bool = False
    exchanges: bool = False


def _nobody(_settings: Any, _texts: Iterable[str], _most: int | None) -> Described:
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Discipline:
    """One discipline. What imports Spark or a protocol does so when it is called.

    ``settings``: what users write. ``key``: what the keys of the output are. ``shown``: the columns
    of `sequencer inspect`; ``counted``: what `sequencer status` shows besides; ``reasons``: those
    of rejects; ``events``: the kinds of its events, but for answers to commands.

    ``operators``: the modules that workers run for these settings, by name; imported before they
    start. ``fixed``: the parts of the identity by name; ``identity`` gives their values as JSON has
    them. ``plan`` makes the plan of settings, the identity and the fields that all plans have.
    ``build`` makes the query between source and sink (rows of `arrow.output.OUTPUT`). ``describe``
    reads state back, ``reshard`` says how it is moved to other shards. ``waiting`` makes a list,
    longest first, of what shards reported as waiting (`arrow.totals`), of all or of this many; by
    default nobody is listed. ``all_waiting`` makes such a text of a shard's state, of all that
    wait or of this many. ``disorder``: whether its shards measure how far out of order messages
    come. ``rows``: whether Spark has to see each record.
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
