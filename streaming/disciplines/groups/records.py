"""What senders wrote, and deliveries by topic: the same in every way of sequencing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sequencer.ragged import Ints
from sequencer.sorting import order_by
from streaming.arrow import output
from streaming.arrow.columns import flat, last_headers
from streaming.arrow.totals import Totals
from streaming.disciplines.plan import Plan
from streaming.settings.values import SUBSCRIBER

REASONS = ("", "missing-sender", "missing-group", "unknown-group", "removed-group")
"""Why a record is rejected; its place here is the reason's number, 0 for none."""

MISSING_SENDER, MISSING_GROUP = 1, 2
COMMAND = -1
"""In place of a reason: the record is a command."""


class Past(NamedTuple):
    """A version of a group that ended in the batch, before the record ``at``.

    ``version``: None where there was no group. ``messages`` of it, and ``members``.
    """

    at: int
    group: str
    version: int | None
    messages: int
    members: Ints


@dataclass(frozen=True, slots=True)
class Published:
    """For each record the place of its group among ``names``, and the reason to reject it.

    A name in no UTF-8 has surrogates, so it is not a group's.
    """

    group: Ints
    names: list[str]
    why: NDArray[np.int8]

    @property
    def good(self) -> Ints:
        """The records that nothing speaks against."""
        return np.flatnonzero(self.why == 0)


def groups_of(records: pa.Table) -> tuple[Ints, list[str]]:
    """For each record the place of its group among the names; -1 where it has none."""
    ((values, _),) = last_headers(flat(records["headers"]), ["group"])
    coded = values.dictionary_encode()
    names = [name.decode(errors="surrogateescape") for name in coded.dictionary.to_pylist()]
    codes = coded.indices.fill_null(-1).to_numpy().astype(np.int64)
    empty = [at for at, name in enumerate(names) if not name]
    return np.where(np.isin(codes, empty), -1, codes), names


def published(records: pa.Table) -> Published:
    """What the records themselves tell; ``records`` has the columns of RECORD."""
    codes, names = groups_of(records)
    why = np.where(codes < 0, MISSING_GROUP, 0).astype(np.int8)
    why[flat(records["key"]).is_null().to_numpy(zero_copy_only=False)] = MISSING_SENDER
    return Published(codes, names, why)


def rejects(records: pa.Table, why: NDArray[np.int8], inputs: Sequence[str]) -> pa.Table:
    """The records with a reason, for the sink."""
    at = np.flatnonzero(why)
    reasons = pa.array(REASONS).take(pa.array(why[at]))
    return output.rejects(records.take(pa.array(at)), reasons, inputs)


def count_records(totals: Totals, why: NDArray[np.int8]) -> None:
    """Count records, and the rejected ones by reason."""
    totals.seen += len(why)
    for reason, count in zip(REASONS, np.bincount(why).tolist(), strict=False):
        if reason and count:
            totals.reject(reason, count)


def by_topic(deliveries: pa.Table, plan: Plan) -> list[output.Write]:
    """The deliveries by topic: one for all, or one for each subscriber; `key` is a dictionary."""
    if SUBSCRIBER not in plan.output:
        return [(plan.output, deliveries)]
    keys = flat(deliveries["key"])
    who = keys.indices.to_numpy()
    order = order_by(who)
    distinct, first = np.unique(who[order], return_index=True)
    bounds = [*first.tolist(), len(who)]
    writes = []
    for at, subscriber in enumerate(distinct.tolist()):
        topic = plan.output.replace(SUBSCRIBER, keys.dictionary[subscriber].as_py().decode())
        writes.append((topic, deliveries.take(pa.array(order[bounds[at] : bounds[at + 1]]))))
    return sorted(writes, key=itemgetter(0))


def retired(pipeline: str, name: str, incarnation: int, sequence: int, now_ms: int) -> output.Event:
    """The event of a subscriber that is forgotten."""
    return name.encode(), {
        "event": "retired",
        "id": f"{pipeline}:retired:{name}:{incarnation}",
        "at": output.at(now_ms),
        "subscriber": name,
        "incarnation": incarnation,
        "sequence": sequence,
    }
