"""Operators by shards: what all disciplines share, however a batch reaches their shards.

A `Core` is the discipline's part of one shard. Its state is a row of Spark's state store, which has
the same columns in every discipline (`StateRow`). An operator takes the core out of the row, lets
it step, puts it back, and sets the shard's timer where the core waits for a moment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sequencer.sorting import ranks
from streaming.arrow.large_rows import Bytes, fetched_back, set_aside
from streaming.arrow.pack import share_in
from streaming.arrow.totals import Totals
from streaming.disciplines.discipline import Reader
from streaming.disciplines.plan import BatchContext, Plan, batch_context
from streaming.disciplines.refused import NOTHING_REFUSED, Refused
from streaming.disciplines.state_keys import shard_keys
from streaming.disciplines.state_row import StateRow
from streaming.versions import require_drivers

if TYPE_CHECKING:
    from pyspark.sql.streaming.state import GroupState

    from streaming.disciplines.source import Read


@dataclass(slots=True)
class Count:
    """What a subscriber or peer got: its next `sequence`, since when, and when it was last active.

    ``incarnation`` and ``last_ms`` in ms.
    """

    sequence: int
    incarnation: int
    last_ms: int

    def renew(self, since_ms: int) -> None:
        """Begin anew, if this began before ``since_ms``."""
        if self.incarnation < since_ms:
            self.sequence, self.incarnation = 0, since_ms


def next_numbers(
    known: dict[str, Count], who: NDArray[np.int64], names: Sequence[str], now_ms: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return `sequence` and `incarnation` of deliveries; the counts go on, new ones begin.

    ``who``: for each delivery the index of its key in ``names``.
    """
    rank, distinct, counts = ranks(who)
    first = np.zeros(len(distinct), dtype=np.int64)
    born = np.zeros(len(distinct), dtype=np.int64)
    for at, (index, count) in enumerate(zip(distinct.tolist(), counts.tolist(), strict=True)):
        of_key = known.setdefault(names[index], Count(0, now_ms, now_ms))
        first[at], born[at] = of_key.sequence, of_key.incarnation
        of_key.sequence += count
        of_key.last_ms = now_ms
    inverse = np.searchsorted(distinct, who)
    return first[inverse] + rank, born[inverse]


class Core(ABC):
    """One shard of a discipline. Equal state and work give equal results, to the byte.

    ``totals`` are its own to count in (`batches` apart). ``clock_ms``: the time of the batch that
    it takes, or took last; it never falls. ``batch_ms``: the same for all shards of a batch.
    """

    totals: Totals

    def __init__(self) -> None:
        self.totals = Totals()
        self.clock_ms = self.batch_ms = 0

    @abstractmethod
    def dump(self) -> str:
        """Return the state as text, without totals and clock."""

    @abstractmethod
    def load(self, state: str) -> None:
        """Become what ``state`` was dumped from; the clock is that of the state already."""

    @abstractmethod
    def renew(self, since_ms: int) -> None:
        """Begin the numbers of keys whose incarnation began before ``since_ms`` anew, then."""

    def due_ms(self, _plan: Any) -> int | None:
        """Return when the shard has something to do without a record; None: never.

        By a plan's rules. A timer takes effect in the first batch whose time is not below that.
        """
        return None


def no_shares(_share: bytes) -> Iterator[pa.RecordBatch]:
    """Read nothing: all that a shard gets are packs."""
    raise AssertionError


NEVER_MS = 2**62
"""When the timer of a shard is due that has none."""

PlanType = TypeVar("PlanType", bound=Plan)
CoreType = TypeVar("CoreType", bound=Core)


class ShardOperator(ABC, Generic[PlanType, CoreType]):
    """The function that Spark calls for each shard.

    ``plan`` has the decisions of the batch whose task runs here, ``configured`` those of now;
    ``read`` reads the shares that shards get in place of packs; ``refused``: what Kafka refused in
    earlier runs of the batch.
    """

    cores: ClassVar[dict[tuple[str, str, int], tuple[Any, str, Any]]] = {}
    """This worker's cores with their plan and the state that they are in: used again where the
    state store has the same, which spares decoding it. Under another plan (with other decisions, or
    of a service that the worker outlived) equal state means something else."""

    keeps_cores: ClassVar[bool] = True

    def __init__(self, plan: PlanType, read: Read = no_shares) -> None:
        self.plan = self.configured = plan
        self.read = read
        self._shared: dict[tuple[int, bytes], dict[int, list[bytes]]] = {}
        self.context = BatchContext("", -1)
        self.refused: Refused = NOTHING_REFUSED
        self.keys = state_keys(plan)
        self.shards = {key: shard for shard, key in enumerate(self.keys)}

    def __call__(
        self, key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        """Step one shard; its rows of OUTPUT come piece by piece, then the state changes."""
        self.begin()
        given = [] if state.hasTimedOut else [row for frame in frames for row in frame["rows"]]
        packs = [pack for row in given if len(row) for pack in self.packs(key[0], row)]
        row = StateRow.from_text(*state.get) if state.exists else StateRow()
        now_ms = state.getCurrentProcessingTimeMs()
        is_quiet = given and all(map(len, given)) and not packs
        due_ms = Totals.from_json(row.totals).due_ms if state.exists else NEVER_MS
        clock_ms = max(now_ms, row.clock_ms)
        if not is_quiet or due_ms is None or due_ms <= clock_ms:
            core = yield from self.step(key[0], packs, row, now_ms)
            clock_ms, due_ms = core.clock_ms, core.due_ms(self.configured)
            due_ms = NEVER_MS if due_ms is None else due_ms
            state.update((self.keep(key[0], core, due_ms).to_text(),))
        if due_ms < NEVER_MS:
            # Spark's timers fire in batches that are later than they, steps act in one that is due
            # by the shard's clock, which is ahead of the batch's if that was set back: a repeated
            # batch, where all shards are called, must do no more than its first run.
            state.setTimeoutDuration(max(1, due_ms - 1 - now_ms) if due_ms > clock_ms else 1)

    def begin(self) -> None:
        """Take over the decisions of the batch whose task runs here."""
        require_drivers()
        self.context = batch_context()
        self.plan = self.configured.under(self.context.decisions)
        self.refused = Refused.of(self.context.decisions)

    def packs(self, key: int, row: bytes) -> list[Bytes]:
        """Return the shard's packs in a row of PACKED, which may say where they are to be read.

        What a task reads it reads once, for all of its shards, each of which asks once.
        """
        pack = fetched_back(row)
        share = share_in(pack)
        if share is None:
            return [pack]
        partitions = self.plan.state_partitions
        partition = self.shards[key] % partitions
        if (partition, share) not in self._shared:
            own = pa.array(self.keys[partition::partitions], pa.int32())
            packs = self._shared[partition, share] = {}
            for table in self.read(share):
                mine = table.filter(pc.is_in(table["shard"], own))
                for shard, pack in zip(*(each.to_pylist() for each in mine.columns), strict=True):
                    packs.setdefault(shard, []).append(pack)
        return self._shared[partition, share].pop(key, [])

    def step(
        self, key: int, packs: Sequence[bytes], row: StateRow, now_ms: int
    ) -> Generator[pd.DataFrame, None, CoreType]:
        """Take a batch's packs, in any order: rows of OUTPUT; returns the shard's core after it."""
        core = self.take(key, row)
        core.batch_ms = max(now_ms, self.plan.renewed_ms + 1)  # who begins now has lives of its own
        core.clock_ms = max(core.batch_ms, row.clock_ms)
        for frame in self.rows(key, core, packs):
            given = frame["rows"].tolist()
            references = set_aside([(each,) for each in given], self.plan.large_rows)
            frame["rows"] = given if references is None else references
            frame["read"] = core.totals.read
            yield frame
        return core

    @abstractmethod
    def rows(self, key: int, core: CoreType, packs: Sequence[bytes]) -> Iterator[pd.DataFrame]:
        """Let a core take a batch's packs, in any order, at its clock; yield rows of OUTPUT."""

    @abstractmethod
    def core(self, shard: int) -> CoreType:
        """Return a new core, as at the beginning of the checkpoint."""

    def renewed(self, shard: int, _stale: CoreType) -> CoreType:
        """Return a new core where this worker has one whose state is not the shard's any more.

        What it knows may be of use in loading; it is not needed after that.
        """
        return self.core(shard)

    def reader(self, describe: Callable[[Any], Iterable[dict[str, Any]]]) -> Reader:
        """Return a reader of the state store's rows, by what ``describe`` says of a core."""

        def read(key: int, state: StateRow) -> Iterable[dict[str, Any]]:
            return describe(self.restored(key, state))

        return read

    def restored(self, key: int, row: StateRow) -> CoreType:
        """Return the shard in a row of the state store, for a look at it."""
        core = self.core(self.shards[key])
        core.clock_ms = row.clock_ms
        if row.core:
            core.load(row.core)
        return core

    def take(self, key: int, row: StateRow) -> CoreType:
        """Return the shard's core in this state, to be stepped: the one kept, if it is in it."""
        shard = self.shards[key]
        plan, kept, core = self.cores.pop(self._name(shard), (None, "", None))
        usable = bool(row.core) and plan == self.plan
        if not usable or kept != row.core:
            core = self.renewed(shard, core) if usable else self.core(shard)
            core.clock_ms = row.clock_ms
            if row.core:
                core.load(row.core)
                core.renew(self.plan.renewed_ms)
        core.totals = replace(Totals.from_json(row.totals), due_ms=None)
        taken: CoreType = core
        return taken

    def keep(self, key: int, core: CoreType, due_ms: int | None = None) -> StateRow:
        """Return the core's state, and keep the core for the next batch.

        ``due_ms``: of its timer, which a batch that has nothing for the shard sets again; NEVER_MS:
        it has none. A state without it was written before states had it.
        """
        text = core.dump()
        if self.keeps_cores:
            self.cores[self._name(self.shards[key])] = (self.plan, text, core)
        totals = replace(core.totals.without_news(), due_ms=due_ms)
        return StateRow(core.clock_ms, totals.to_json(), text)

    def _name(self, shard: int) -> tuple[str, str, int]:
        return (self.plan.service, self.plan.pipeline, shard)


def state_keys(plan: Plan) -> list[int]:
    """The state key of each shard."""
    return shard_keys(plan.shards, plan.state_partitions)
