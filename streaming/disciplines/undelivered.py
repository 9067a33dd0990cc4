"""Deliveries that Kafka refuses for good, of groups and multicasts.

They are left out of what a shard writes (`LeavingOut`), and the numbers of those behind them are
lower. Others get the message all the same: an event `undelivered` says who does not. Where nobody
does, the message is rejected.

In the order of the batch (`Dropping`) it is rejected by the shard of its first destination: that
one wrote nothing of the batch before. Only the run of the batch in which a message was first
refused decides whether that is so: later ones find shards that have written their events. (That run
knows all that is refused, but at-least-once.) Shards that send each other messages ask each other
(`streaming.disciplines.inquiries`).
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.arrow import output
from streaming.arrow.columns import flat, last_headers, plain
from streaming.arrow.totals import Totals
from streaming.disciplines.commands import place_of
from streaming.disciplines.plan import Plan
from streaming.disciplines.refused import Name, Refused, Why, text_of
from streaming.places import StreamPoint
from streaming.wire.encoded import HEADER


class Work(Protocol):
    """A batch, as `broadcast.BroadcastWork` has it."""

    @property
    def records(self) -> pa.Table:
        """The records, in order of arrival."""

    @property
    def commands(self) -> pa.Table:
        """The commands before them."""

    @property
    def now_ms(self) -> int:
        """The batch's time."""


class Spending(Protocol):
    """A shard that has taken a batch, and numbered its deliveries."""

    def unspend(self, counts: Mapping[bytes, int]) -> None:
        """Take back this many of the last sequence numbers of these keys."""


class Counting(Spending, Protocol):
    """A shard that sees every record."""

    totals: Totals

    def origin(self, work: Any, name: Name) -> int:
        """Return the record that a delivery is of; below 0 a command, counted from their end."""

    def is_notice(self, work: Any, name: Name) -> bool:
        """Return whether a delivery is not of a message, but reports a command."""

    def destinations(self, work: Any, record: int) -> Collection[str]:
        """Return who had to get a record."""


ROW = "input row"
"""A column of deliveries, not a header: the row of their record, in a table of the core's."""


class LeavingOut:
    """Leaves refused deliveries out of what is written; see above.

    ``dropped``: their names. ``rows``: of those from tables that have ROW, what it says.
    ``points``: by key, where they were in its stream.
    """

    def __init__(self, refused: Refused, plan: Plan) -> None:
        self.refused, self.plan = refused, plan
        # In findings of before a name may lack the last headers, which were not there then.
        empty = (None,) * (1 + len(plan.identifying()))
        self.named: Mapping[Name, Why] = {
            (*name, *empty[len(name) :]): why for name, why in refused.deliveries.items()
        }
        self.keys = pa.array({_key(name) for name in self.named}, pa.binary())
        self.counts: Counter[bytes] = Counter()
        self.points: dict[bytes, list[StreamPoint]] = {}
        self.dropped: list[Name] = []
        self.rows: list[int | None] = []

    def kept(self, topic: str, table: pa.Table) -> pa.Table:
        """Return what is left of a table that is to be written to a topic; events come last."""
        if topic == self.plan.events and self.points:
            return self._moved(table)
        if not self.named or not self.plan.delivers_to(topic) or not len(table):
            return table
        keys = plain(flat(table["key"]))
        rows = np.flatnonzero(pc.is_in(keys, value_set=self.keys).to_numpy(zero_copy_only=False))
        sequence = np.array(plain(flat(table["sequence"])))
        keep = np.ones(len(table), np.bool_)
        given = flat(table[ROW]).to_pylist() if ROW in table.column_names else [None] * len(table)
        for row, name in zip(rows.tolist(), self._names(table, rows), strict=True):
            key = _key(name)
            if name in self.named:
                keep[row] = False
                self.counts[key] += 1
                point = table["incarnation"][row].as_py(), int(sequence[row])
                self.points.setdefault(key, []).append(point)
                self.dropped.append(name)
                self.rows.append(given[row])
            else:
                sequence[row] -= self.counts[key]
        at = table.schema.get_field_index("sequence")
        table = table.set_column(at, "sequence", pa.array(sequence))
        if ROW in table.column_names:
            table = table.drop_columns([ROW])
        return table if keep.all() else table.take(pa.array(np.flatnonzero(keep)))

    def _moved(self, events: pa.Table) -> pa.Table:
        """Return events whose answers to releases name the places that peers' streams have now."""
        values = events["value"].to_pylist()
        for row, value in enumerate(values):
            event = json.loads(value)
            if "peer" in event and "sequence" in event:
                own = event["incarnation"], event["sequence"]
                points = self.points.get(event["peer"].encode(), ())
                event["sequence"] -= sum(own[0] == at[0] and at < own for at in points)
                values[row] = json.dumps(event, ensure_ascii=False).encode()
        at = events.schema.get_field_index("value")
        return events.set_column(at, "value", pa.array(values, pa.binary()))

    def _names(self, table: pa.Table, rows: np.ndarray[Any, Any]) -> Iterator[Name]:
        part = table.take(pa.array(rows)).combine_chunks()
        columns = [[text_of(key) for key in plain(flat(part["key"])).to_pylist()]]
        prefix = self.plan.headers.prefix
        for full in self.plan.identifying():
            own = full.removeprefix(prefix)
            column = HEADER + own if HEADER + own in part.column_names else own
            if column in part.column_names:
                values = plain(flat(part[column])).to_pylist()
            else:
                headers = plain(flat(part["headers"]))
                values = last_headers(headers, [full])[0][0].to_pylist()
            columns.append([_text(value) for value in values])
        return zip(*columns, strict=True)


class _Message(NamedTuple):
    """A message or notice of which deliveries were left out: its record (see `Counting`), as a row.

    ``first``: the first of its destinations, where nobody gets it.
    """

    record: int
    row: Mapping[str, Any]
    is_notice: bool
    first: str | None


class Dropping(LeavingOut):
    """Leaves refused deliveries out where every shard sees every record."""

    def __init__(self, refused: Refused, plan: Plan, core: Counting) -> None:
        super().__init__(refused, plan)
        self.core = core

    def close(self, work: Work) -> Iterator[output.Write]:
        """Say what became of what was left out; the shard has taken the batch."""
        if not self.dropped:
            return
        self.core.unspend(self.counts)
        totals, plan = self.core.totals, self.plan
        events: list[output.Event] = []
        rejected: list[tuple[int, Why]] = []
        found: dict[Name, _Message] = {}
        for name in self.dropped:
            why, (message, to) = self.named[name], plan.message_of(name)
            if message not in found:  # its destinations may be many, and each of them refused
                found[message] = self._message(work, name)
            of = found[message]
            totals.notices -= of.is_notice
            totals.delivered -= not of.is_notice
            if of.first is None:
                totals.undelivered += 1
                events.append(undelivered(plan, of.row, to, why, work.now_ms))
            elif to == of.first:
                rejected.append((of.record, why))
                totals.reject(why[0])
        if rejected:
            rejected.sort()
            rows = work.records.take(pa.array([record for record, _ in rejected])).combine_chunks()
            reasons, details = zip(*(why for _, why in rejected), strict=True)
            table = output.rejects(rows, pa.array(reasons), plan.inputs, pa.array(details))
            yield plan.rejects, table
        yield plan.events, output.events(events)

    def _message(self, work: Work, name: Name) -> _Message:
        """Return what a delivery is of."""
        record, is_notice = self.core.origin(work, name), self.core.is_notice(work, name)
        rows = work.records if record >= 0 else work.commands
        row = rows.slice(record if record >= 0 else len(rows) + record, 1).to_pylist()[0]
        first = None
        if not is_notice:
            destinations = self.core.destinations(work, record)
            first = min(destinations) if self._is_nobody_s(name, destinations) else None
        return _Message(record, row, is_notice, first)

    def _is_nobody_s(self, name: Name, destinations: Collection[str]) -> bool:
        """Return whether the run that refused this message first refused it for all."""
        message, _ = self.plan.message_of(name)
        refused = next((run[message] for run in self._destinations if message in run), None)
        return refused is not None and refused >= set(destinations)

    @cached_property
    def _destinations(self) -> list[dict[Name, set[str]]]:
        """The destinations for which each run refused a message, by message."""
        runs: list[dict[Name, set[str]]] = []
        for run in self.refused.runs:
            runs.append({})
            for each in run:
                message, to = self.plan.message_of(tuple(each["name"]))
                runs[-1].setdefault(message, set()).add(to)
        return runs


def undelivered(plan: Plan, row: Mapping[str, Any], to: str, why: Why, now_ms: int) -> output.Event:
    """Return the event of a destination that does not get the record in a row of RECORD."""
    return not_delivered(plan, place_of(row, plan), row["key"], to, why, now_ms)


def not_delivered(
    plan: Plan, place: Mapping[str, Any], key: bytes | None, to: str, why: Why, now_ms: int
) -> output.Event:
    """Return the event of a destination that does not get the record of a key, at a place."""
    begin = output.event(plan.pipeline, "undelivered", place, now_ms)
    to = to.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return key or b"", {
        **begin,
        "id": f"{begin['id']}:{to}",
        **place,
        "destination": to,
        "reason": why[0],
        "detail": why[1],
    }


def _key(name: Name) -> bytes:
    return base64.b64decode(name[0] or "")


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return value.decode(errors="surrogateescape") if isinstance(value, bytes) else str(value)
