"""A Kafka in memory for the sink: what is committed, and a producer that writes to it."""

import contextlib
from types import SimpleNamespace

import pyarrow as pa
import pytest

from streaming.arrow.ipc import to_ipc
from streaming.arrow.schemas import HEADERS
from streaming.disciplines.plan import BatchContext, Plan
from streaming.sink import writer
from streaming.sink.refusals import RecordsRefused
from streaming.sink.sink import Sink

PARTITIONS = 3
TOPICS = ("out", "rejects", "events")


class Crash(Exception):  # noqa: N818  (no fault: what happens to workers)
    """The worker died."""


class Topics:
    """What is committed: by topic and partition the values, and the progress of one group.

    ``refused``: values that the topics never take.
    """

    def __init__(self):
        self.values, self.progress, self.refused = {}, (-1, ""), ()
        self.transactions = []
        self.crash = lambda: None

    def all(self):
        return [value for place in sorted(self.values) for value in self.values[place]]


class FakeProducer:
    """Writes to :class:`Topics`, whose ``crash`` is called before each step and may raise."""

    is_reusable = True
    ends: dict[str, int] = {}  # noqa: RUF012  (nothing is known of it)

    def __init__(self, plan, topics):
        self.plan, self.topics = plan, topics
        self.transactional = plan.delivery == "exactly-once"
        self.open, self.noted = [], None
        self.refusals = []
        self.outbox = SimpleNamespace(wait=lambda: None)

    def begin_session(self):
        pass

    def abort(self):
        pass

    def progress(self):
        return self.topics.progress

    def confirm_progress(self):
        pass

    def write(self, topic, table, partitions, _added):
        self.topics.crash()
        values = table["value"].to_pylist()
        self._put(
            [(topic, at, value) for at, value in zip(partitions.tolist(), values, strict=True)]
        )

    def put(self, topic, batches):
        self.topics.crash()
        self._put([(topic, each.partition, bytes(each.body)) for each in batches])

    def _put(self, some):
        self.open += some
        if not self.transactional:
            self._keep()

    def send_progress(self, batch, metadata):
        self.topics.crash()
        self.noted = (batch, metadata)

    def finish(self):
        self.topics.crash()
        self.refusals += [value for *_, value in self.open if value in self.topics.refused]
        if self.refusals:
            self.open = []
            raise RecordsRefused([*self.refusals])
        self.topics.transactions.append(len(self.open))
        self._keep()
        if self.transactional:
            self.topics.progress = self.noted
        self.topics.crash()

    def _keep(self):
        for topic, at, value in self.open:
            self.topics.values.setdefault((topic, at), []).append(value)
        self.open = []

    def close(self):
        pass

    def errors(self, _doing):
        return contextlib.nullcontext()


def make_plan(**more):
    return Plan(
        service="s",
        pipeline="p",
        inputs=("in",),
        output="out",
        rejects="rejects",
        events="events",
        partitions=dict.fromkeys(TOPICS, PARTITIONS),
        **more,
    )


def small_kafka(monkeypatch):
    """An empty Kafka; writers of this test write to it."""
    found = Topics()
    monkeypatch.setattr(writer, "_writers", {})
    for module in ("sink", "writer"):
        monkeypatch.setattr(
            f"streaming.sink.{module}.make_producer", lambda plan, _: FakeProducer(plan, found)
        )
    return found


PLAN = make_plan(part_records_max=10)


def table_of(*values):
    count = len(values)
    numbers = {"timestamp": pa.array([1] * count), "sequence": pa.array(range(count))}
    keys = {"key": pa.array([b"k"] * count), "headers": pa.nulls(count, HEADERS)}
    return pa.table({"value": pa.array([b"%d" % v for v in values]), **keys, **numbers})


def rows_of(made, order):
    return [
        {"shard": shard, "topic": topic, "rows": to_ipc(table), "totals": "", "wrote_before": True}
        for shard in order
        for topic, table in made[shard]
    ]


def write(plan, rows, batch=0, **more):
    """One attempt at a batch, by a worker that has written nothing; ``more`` of its context."""
    writer._writers.clear()
    totals = []
    first, *rest = rows
    context = BatchContext("q", batch, **more)
    return Sink(plan).write(context, 0, first, iter(rest), totals)


def cut_once(topics, plan, rows):
    """Write until a part is committed, then die."""

    def die():
        if topics.transactions:
            raise Crash

    topics.crash = die
    with pytest.raises(Crash):
        write(plan, rows)
    topics.crash = lambda: None
