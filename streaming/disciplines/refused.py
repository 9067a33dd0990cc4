"""Records that Kafka refuses for good, and what becomes of them.

Which they are turns out when a batch is written. The sink aborts the transaction and reports them;
the driver keeps them as a finding of the batch (`streaming.service.decisions`), one list for each
run of it, and runs it again: the operators reject them, in their place. Another list may follow, of
rejects for instance: a record that its own topic refuses is rejected without its value.

A delivery is named by what the sink sees of it: its key and headers by which its discipline tells
deliveries apart, as they were in the run in which it was refused. A reject is named by its place.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from streaming.arrow.columns import flat
from streaming.disciplines.plan import Plan
from streaming.places import Place
from streaming.wire.blocks import plain_values

FINDING = "refused"
RECORDS_READ = "records_read"
"""The finding beside it: by state partition, how many records of the batch its shards got."""
OUTPUT, REJECTS = "output", "rejects"
PLACE = ("reject-topic", "reject-partition", "reject-offset")
"""Headers that name a reject."""

Found = dict[str, Any]
"""A refused record in words of JSON."""
Name = tuple[str | None, ...]
"""What a delivery is known by: its key (base64), then headers as text."""
Why = tuple[str, str]
"""A reason for rejects, and what Kafka said."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that Kafka refused.

    ``why`` is a reason for rejects, ``detail`` what Kafka said. ``headers`` are the last of each
    name. ``checksum``: of the value.
    """

    topic: str
    why: str
    detail: str
    key: bytes | None
    headers: Mapping[str, bytes | None]
    timestamp: int
    checksum: int


def found(refusal: Refusal, plan: Plan) -> Found | None:
    """Return a refusal as a finding; None where it is neither a delivery nor a reject."""
    names: tuple[str, ...] = ()
    role = OUTPUT
    if refusal.topic == plan.rejects:
        role, names = REJECTS, tuple(plan.headers(name) for name in PLACE)
    elif plan.delivers_to(refusal.topic):
        names = plan.identifying()
    if not names:
        return None
    return {
        "role": role,
        "name": [text_of(refusal.key), *(_text(refusal.headers.get(name)) for name in names)],
        "why": refusal.why,
        "detail": refusal.detail,
        "timestamp": refusal.timestamp,
        "checksum": refusal.checksum,
    }


def refusing_runs(decisions: Mapping[str, Any]) -> int:
    """Return how many runs of a batch found records that Kafka refuses, by what it decided."""
    return len(decisions.get(FINDING, ()))


def text_of(key: bytes | None) -> str | None:
    """Return a key as names have it."""
    return None if key is None else base64.b64encode(key).decode()


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="surrogateescape")


@dataclass(frozen=True, slots=True)
class Refused:
    """The refused records of a batch.

    ``runs``: for each run of the batch the deliveries that were refused in it. ``rejects``: how
    often each reject was, and why at last.
    """

    runs: Sequence[Sequence[Found]] = ()
    rejects: Mapping[Place, tuple[int, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, decisions: Mapping[str, Any]) -> Refused:
        """Return those in a batch's decisions."""
        runs, rejects = [], dict[Place, tuple[int, str]]()
        for run in decisions.get(FINDING, ()):
            runs.append([each for each in run if each["role"] == OUTPUT])
            for each in run:
                if each["role"] == REJECTS:
                    _, topic, partition, offset = each["name"]
                    place = (topic, int(partition), int(offset))
                    rejects[place] = (rejects.get(place, (0, ""))[0] + 1, each["detail"])
        return cls([run for run in runs if run], rejects)

    @property
    def deliveries(self) -> Mapping[Name, Why]:
        """All deliveries, where no run of the batch gives one's name to another."""
        return {
            tuple(each["name"]): (each["why"], each["detail"]) for run in self.runs for each in run
        }

    def stripped(self, rejects: pa.Table, now_ms: int) -> pa.Table:
        """Return rejects (see `output.rejects`) with less of those that their topic refused.

        First without the value, then with nothing of their own: key, headers and timestamp, too.
        """
        if not self.rejects:
            return rejects
        columns = (flat(rejects[name]).to_pylist() for name in PLACE)
        places = [self.rejects.get(place, (0, "")) for place in zip(*columns, strict=True)]
        if not any(times for times, _ in places):
            return rejects
        rows = plain_values(rejects)
        values = flat(rows["value"]).to_pylist()
        details = [
            "; ".join(filter(None, [detail, *_left_out(times, value, why)])) or None
            for detail, (times, why), value in zip(
                flat(rows["reject-detail"]).to_pylist(), places, values, strict=True
            )
        ]
        kept = {"value": 0, "key": 1, "headers": 1, "timestamp": 1}
        columns_left = {
            name: [
                own if times <= times_max else None
                for own, (times, _) in zip(flat(rows[name]).to_pylist(), places, strict=True)
            ]
            for name, times_max in kept.items()
        }
        columns_left["timestamp"] = [
            now_ms if each is None else each for each in columns_left["timestamp"]
        ]
        for name, column in {**columns_left, "reject-detail": details}.items():
            field = rows.schema.get_field_index(name)
            rows = rows.set_column(field, name, pa.array(column, rows.schema.field(field).type))
        return rows


NOTHING_REFUSED = Refused()


def _left_out(times: int, value: bytes | None, why: str) -> list[str]:
    if not times:
        return []
    what = f"its value ({len(value or b'')} bytes)"
    if times > 1:
        what = "all of it (key, value, headers, timestamp)"
    return [f"without {what}, as the rejects' topic refuses that: {why}"]
