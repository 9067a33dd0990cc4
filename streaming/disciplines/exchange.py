"""Operators whose shards send each other messages: groups and multicast.

A batch brings a shard its part of the inputs, all commands, and the chunks that other shards sent
it in earlier batches, by way of the transit topic. This module is what such disciplines share: who
gets what, and the links between shards.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streaming.arrow.columns import flat, row_bytes
from streaming.arrow.output import OUTPUT, Write, output_rows
from streaming.arrow.pack import in_order, pack_by_shard
from streaming.arrow.schemas import HEADERS, RECORD
from streaming.arrow.times import newest_read
from streaming.arrow.totals import Totals
from streaming.disciplines.commands import asked_in
from streaming.disciplines.inquiries import Answering, Decider, Inquiries
from streaming.disciplines.links import CHUNK_FORMAT, ENVELOPE_BYTES, SAID_FORMAT, Links
from streaming.disciplines.plan import ExchangePlan, batch_context
from streaming.disciplines.shards import Core, ShardOperator, state_keys
from streaming.disciplines.state_row import STATE, StateRow
from streaming.disciplines.undelivered import LeavingOut
from streaming.errors import InputDamaged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streaming.disciplines.source import Source

Route = Callable[[pa.Table], NDArray[np.integer]]
"""The shard of each row of a table of input records."""


@dataclass(frozen=True, slots=True)
class ShardWork:
    """What a shard gets of a batch, each in order of arrival.

    ``records`` and ``commands`` have the columns of RECORD; ``arrived`` are the sending shards and
    their chunks, ``statements`` what those say about refused messages. ``now_ms`` never falls;
    ``batch_ms`` is the same for all shards, also after the driver's clock was set back.
    """

    records: pa.Table
    commands: pa.Table
    arrived: Sequence[tuple[int, bytes]]
    now_ms: int
    batch_ms: int
    statements: Sequence[tuple[int, bytes]] = ()


@dataclass(frozen=True, slots=True)
class ShardOutcome:
    """The result of a step: records to write, and chunks for other shards, in order.

    ``kept_bytes``: the bytes of the records in the state after the step.

    If the plan has progress marks, ``kept`` are the times of the records that wait here, and
    ``sent`` a count of messages to other shards and the times of what they carry, if it is
    not kept here.
    """

    writes: Sequence[Write] = ()
    outgoing: Mapping[int, Sequence[bytes]] = field(default_factory=dict)
    kept_bytes: int = 0
    kept: pa.ChunkedArray | None = None
    sent: tuple[int, pa.ChunkedArray] | None = None


class ExchangeCore(Core):
    """One shard of a protocol between shards; ``links``: those to the others.

    ``inquiries``: about messages that Kafka refused; ``refusals`` answers them. ``names_rows``:
    whether deliveries of the batch have a column `undelivered.ROW`, for it.
    """

    refusals: Answering

    def __init__(self) -> None:
        super().__init__()
        self.links = Links()
        self.inquiries = Inquiries()
        self.names_rows = False

    @abstractmethod
    def step(self, work: ShardWork) -> ShardOutcome:
        """Take a batch's work."""


class ExchangeOperator(ShardOperator[ExchangePlan, ExchangeCore]):
    """The function that Spark calls for each shard.

    A shard's links stand in its state on a line before the core's.
    """

    def take(self, key: int, row: StateRow) -> ExchangeCore:
        """See `ShardOperator.take`."""
        links, _, text = row.core.partition("\n")
        core = super().take(key, row._replace(core=text))
        core.links, core.inquiries = _read_links(links)
        core.links.renewals = self.plan.renewals
        core.links.batch = self.plan.batches_before + self.context.batch
        if self.plan.delivery == "at-least-once":
            core.links.checkpoint = Links.number_of(self.context.query)
            core.links.run = len(self.refused.runs)
        return core

    def restored(self, key: int, row: StateRow) -> ExchangeCore:
        """See `ShardOperator.restored`."""
        return super().restored(key, row._replace(core=row.core.partition("\n")[2]))

    def keep(self, key: int, core: ExchangeCore, due_ms: int | None = None) -> StateRow:
        """See `ShardOperator.keep`."""
        row = super().keep(key, core, due_ms)
        links = core.links.to_json(core.inquiries.fields())
        return row._replace(core=f"{links}\n{row.core}")

    def rows(self, key: int, core: ExchangeCore, packs: Sequence[bytes]) -> Iterator[pd.DataFrame]:
        """See `ShardOperator.rows`."""
        work, shard = self._work(packs, core), self.shards[key]
        core.names_rows = bool(self.refused.deliveries)
        outcome = core.step(work)
        self._note_times(core.totals, work, outcome)
        core.totals.kept_bytes = outcome.kept_bytes
        left_out = LeavingOut(self.refused, self.plan)
        writes = [(topic, left_out.kept(topic, table)) for topic, table in outcome.writes]
        said = core.inquiries.step(
            [(source, words) for source, words in work.statements if words],
            left_out,
            Decider(core.refusals, shard, core.totals, work.now_ms),
        )
        statements = said.outgoing
        if core.links.run:
            spoken = {to for to, chunks in outcome.outgoing.items() if chunks}
            spoken.update(to for to, _ in statements)
            silent = sorted({*range(self.plan.shards)} - spoken)
            statements = [*statements, *((to, b"") for to in silent)]
        core.totals.transit += len(statements) - len(work.statements) + core.links.withdrawn
        if outcome.sent is not None and statements:  # they hold no delivery back
            count, *oldest_ms = core.totals.in_transit
            core.totals.in_transit = [count + len(statements), *oldest_ms]
        writes = [
            (topic, self.refused.stripped(table, work.now_ms))
            if topic == self.plan.rejects
            else (topic, table)
            for topic, table in (*writes, *said.writes)
        ]
        sealed = [
            (target, core.links.seal(shard, target, chunk))
            for target, chunks in sorted(outcome.outgoing.items())
            for chunk in chunks
        ]
        sealed += [
            (target, core.links.seal(shard, target, words, SAID_FORMAT))
            for target, words in statements
        ]
        writes.append((self.plan.transit, self._transit(sealed)))
        yield from output_rows(key, writes, core.totals)

    def _note_times(self, totals: Totals, work: ShardWork, outcome: ShardOutcome) -> None:
        """Note what progress marks rest on."""
        totals.oldest_ms, totals.in_transit = None, []
        if outcome.kept is None:
            return
        totals.read_ms = newest_read(totals.read_ms, work.records, self.plan.inputs)
        totals.oldest_ms = {"": pc.min(outcome.kept).as_py()} if len(outcome.kept) else {}
        if outcome.sent is not None:
            count, times = outcome.sent
            totals.in_transit = [count, pc.min(times).as_py()] if len(times) else [count]

    def _work(self, packs: Sequence[bytes], core: ExchangeCore) -> ShardWork:
        table = in_order(packs)
        core.totals.read = len(table)
        topic = flat(table["topic"]).to_numpy()
        bounds = np.searchsorted(topic, [len(self.plan.inputs), len(self.plan.inputs) + 1])
        records, commands, transit = (
            table.slice(a, b - a) for a, b in pairwise([0, *bounds.tolist(), len(table)])
        )
        arrived = core.links.take(transit["value"].to_pylist())
        steps, statements = arrived[CHUNK_FORMAT], arrived[SAID_FORMAT]
        return ShardWork(records, commands, steps, core.clock_ms, core.batch_ms, statements)

    def _transit(self, sealed: Sequence[tuple[int, bytes]]) -> pa.Table:
        count = self.plan.partitions[self.plan.transit]
        return pa.table(
            {
                "key": pa.array([b"%d" % target for target, _ in sealed], pa.binary()),
                "value": pa.array([value for _, value in sealed], pa.binary()),
                "headers": pa.nulls(len(sealed), HEADERS),
                "partition": pa.array([target % count for target, _ in sealed], pa.int32()),
            }
        )


def _read_links(text: str) -> tuple[Links, Inquiries]:
    """What stands before a core's state: its links, and inquiries if there are any."""
    links, inquiries = Links.of(text)
    return links, Inquiries.of(inquiries)


def is_deciding(row: StateRow) -> bool:
    """Return whether a shard's inquiries about refused messages go on."""
    _, inquiries = _read_links(row.core.partition("\n")[0])
    return bool(inquiries.cases or inquiries.asked)


def with_new_links(core: str) -> str:
    """A core's state as a row has it, where nothing went from shard to shard yet."""
    return f"{Links().to_json()}\n{core}"


def exchange(
    source: Source, plan: ExchangePlan, route: Route, operator: ExchangeOperator
) -> DataFrame:
    """The query between Kafka and the sink: rows of OUTPUT.

    The transit topic has a source of its own: a batch's limit is shared among all topics of a
    source by what is left to read, so behind a backlog of inputs it would get next to nothing.
    """
    making = partial(spread_rows, plan=plan, route=route)
    tasks = plan.state_partitions
    transit = source.packs((plan.transit,), plan.reads, making, tasks, own=True)
    return (
        source.packs((*plan.inputs, plan.commands), plan.reads, making, tasks)
        .frame.unionByName(transit.frame)
        .groupBy("shard")
        .applyInPandasWithState(operator, OUTPUT, STATE, "append", "NoTimeout")
    )


def spread_rows(
    table: pa.Table, plan: ExchangePlan, route: Route, *, large_rows: str = ""
) -> pa.RecordBatch:
    """Rows of PACKED: each shard gets its inputs and chunks, and every shard all commands.

    Also those among the inputs, by the decisions of the batch. ``large_rows``: see `pack_by_shard`.
    """
    table = table.cast(RECORD).combine_chunks()
    topic = flat(table["topic"]).to_numpy()
    plan = plan.under(batch_context().decisions)
    is_command = topic == len(plan.inputs)
    inputs = np.flatnonzero(topic < len(plan.inputs))
    is_command[inputs[[*asked_in(table.take(pa.array(inputs)), plan.input_commands)]]] = True
    inputs = inputs[~is_command[inputs]]
    commands = np.flatnonzero(is_command)
    chunks = np.flatnonzero(topic > len(plan.inputs))
    targets = _targets(table, chunks, plan)
    row = np.concatenate((inputs, chunks, np.tile(commands, plan.shards)))
    shard = np.concatenate(
        (
            route(table.take(pa.array(inputs))),
            np.array(targets, dtype=np.int64),
            np.repeat(np.arange(plan.shards), len(commands)),
        )
    )
    rows = table.take(pa.array(row))
    return pack_by_shard(rows, shard, state_keys(plan), large_rows=large_rows)


def _targets(table: pa.Table, chunks: NDArray[np.int64], plan: ExchangePlan) -> list[int]:
    """Return the shards that the rows ``chunks`` are for. InputDamaged where one is foreign."""
    keys = flat(table["key"]).take(pa.array(chunks)).to_pylist()
    sizes = row_bytes(flat(table["value"]))[chunks].tolist()  # no value is copied for it
    targets = []
    for row, key, size in zip(chunks.tolist(), keys, sizes, strict=True):
        target = int(key) if key and key.isdigit() else plan.shards
        if target >= plan.shards or size < ENVELOPE_BYTES:
            partition, offset = (table[name][row].as_py() for name in ("partition", "offset"))
            raise InputDamaged(
                f"{plan.transit}/{partition}@{offset} is not a record of this service.",
                "Nothing was written of its batch.",
                "Let nobody else write to the transit topic. Start with a new checkpoint: all "
                "input is then read again, and delivered under new incarnations.",
            )
        targets.append(target)
    return targets
