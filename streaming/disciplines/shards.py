"""Operators by shards: what groups and multicast share, however a batch reaches their shards.

A `Core` is the discipline's part of one shard. Its state is a row of Spark's state store, which has
the same columns in every discipline (`StateRow`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from streaming.arrow.totals import Totals
from streaming.disciplines.discipline import Described, Reader
from streaming.disciplines.plan import Plan, batch_context
from streaming.disciplines.state_keys import shard_keys
from streaming.disciplines.state_row import StateRow, blob_of


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


class Core(ABC):
    """One shard of a discipline. Equal state and work give equal results, to the byte.

    ``totals`` are its own to count in (`batches` apart).
    """

    def __init__(self) -> None:
        self.totals = Totals()

    @abstractmethod
    def dump(self) -> bytes:
        """The state, without the totals."""

    @abstractmethod
    def load(self, state: bytes) -> None:
        """Become what ``state`` was dumped from."""

    @abstractmethod
    def renew(self, since_ms: int) -> None:
        """Begin the numbers of keys whose incarnation began before ``since_ms`` anew, then."""


PlanType = TypeVar("PlanType", bound=Plan)
CoreType = TypeVar("CoreType", bound=Core)


class ShardOperator(ABC, Generic[PlanType, CoreType]):
    """The function that Spark calls for each shard."""

    cores: ClassVar[dict[tuple[str, str, int], tuple[Any, bytes, Any]]] = {}
    """This worker's cores with their plan and the state that they are in: used again where the
    state store has the same, which spares decoding it. Under another plan (with other decisions, or
    of a service that the worker outlived) equal state means something else."""

    def __init__(self, plan: PlanType) -> None:
        self.plan = plan
        self.shards = {key: shard for shard, key in enumerate(state_keys(plan))}

    def begin(self) -> None:
        """Take over the decisions of the batch whose task runs here."""
        self.plan = self.plan.under(batch_context().decisions)

    @abstractmethod
    def core(self, shard: int) -> CoreType:
        """A new core, as at the beginning of the checkpoint."""

    def renewed(self, shard: int, _stale: CoreType) -> CoreType:
        """A new core where this worker has one whose state is not the shard's any more.

        What it knows may be of use in loading; it is not needed after that.
        """
        return self.core(shard)

    def reader(self, describe: Callable[[Any], Described]) -> Reader:
        """Reads rows of the state store back, by what ``describe`` says of a core."""

        def read(key: int, state: StateRow) -> Described:
            return describe(self.restored(key, state))

        return read

    def restored(self, key: int, row: StateRow) -> CoreType:
        """The shard in a row of the state store, for a look at it."""
        blob = blob_of(row.core)
        core = self.core(self.shards[key])
        if blob:
            core.load(blob)
        return core

    def take(self, shard: int, blob: bytes, totals: str) -> CoreType:
        """The shard's core in this state, to be stepped: the one kept, if it is in it."""
        plan, kept, core = self.cores.pop(self._name(shard), (None, b"", None))
        usable = bool(blob) and plan == self.plan
        if not usable or kept != blob:
            core = self.renewed(shard, core) if usable else self.core(shard)
            if blob:
                core.load(blob)
                core.renew(self.plan.renewed_ms)
        core.totals = Totals.from_json(totals)
        taken: CoreType = core
        return taken

    def keep(self, shard: int, core: CoreType) -> bytes:
        """Keep the core for the next batch; its state."""
        blob = core.dump()
        self.cores[self._name(shard)] = (self.plan, blob, core)
        return blob

    def _name(self, shard: int) -> tuple[str, str, int]:
        return (self.plan.service, self.plan.pipeline, shard)


def state_keys(plan: Plan) -> list[int]:
    """The state key of each shard."""
    return shard_keys(plan.shards, plan.state_partitions)
