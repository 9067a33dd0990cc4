"""A batch that Spark runs: its stages, the tasks of their partitions, and the state behind them."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pyarrow as pa
from pyspark import TaskContext

from streaming.arrow.schemas import RECORD
from streaming.disciplines.plan import BatchContext
from streaming.sink.sink import Sink
from streaming.source.reader import rows_of_share
from tests.simulated.attempts import TaskFailed, run_stage
from tests.simulated.disk import LOST_SHARE
from tests.simulated.group_state import GroupState
from tests.simulated.world import Pipe, wait


class Frame:
    """What foreachBatch gets: a batch that runs when it is collected.

    ``wakes``: every shard is stepped, also without records (`reader.Ticks`).
    """

    wakes = False

    def __init__(self, driver, plan, source, batch, now_ms):
        self.driver, self.service, self.plan = driver, driver.service, plan
        self.rows, self.inputs = source
        self.batch, self.now_ms = batch, now_ms
        self.context = self.task = None
        self.names = {}
        self.sparkSession = SimpleNamespace(sparkContext=self)

    def setLocalProperty(self, _name, text):  # noqa: N802  (Spark's name)
        """The batch's context; a task has it for as long as it does not wait."""
        self.task = SimpleNamespace(getLocalProperty=lambda _name: text)
        self.context = BatchContext.from_json(text)

    def collect(self):
        """Run the batch: the reports of its state partitions as texts.

        ``names``: of the states in which its last run ended, by partition.
        """
        try:
            return self._run()
        except TaskFailed as failed:  # Spark gives its text, in which the service finds the cause
            cause = failed.__cause__
            if self.service.registry is None or cause is None:
                raise
        raise cause

    def _run(self):
        driver = self.driver
        self.reads = [partial(self._begin_reading, share) for share in self.rows.shares]
        self.packs = [[pack] for pack in run_stage(driver, self.reads)]
        self._shuffle()
        parts = [partial(self._begin, partition) for partition in self.service.keys]
        results = run_stage(driver, parts, self._fetch_again)
        ended = [each for each in results if isinstance(each, tuple)]
        self.names = {partition: name for partition, name, _ in ended}
        return [text for *_, text in ended if text is not None]

    def _begin_reading(self, share):
        return [self.driver.run_task("source", partial(self._read, share))]

    def _shuffle(self):
        """The rows for the shards, which come in any order."""
        rows = [row for some in self.packs for packs in some for row in packs]
        if self.rows.here is not None:
            rows = [(key, self.rows.here) for keys in self.service.keys.values() for key in keys]
        if self.wakes:
            rows += [(key, b"") for keys in self.service.keys.values() for key in keys]
        self.driver.world.rng.shuffle(rows)
        self.given = rows

    def _fetch_again(self):
        """Some of what was read may be lost with its executor: it is read again."""
        rng = self.driver.world.rng
        is_lost = rng.random() < LOST_SHARE
        lost = [
            number for number in range(len(self.packs)) if is_lost and rng.random() < LOST_SHARE
        ]
        for number in lost:
            self.packs[number] = run_stage(self.driver, [self.reads[number]])
        self._shuffle()
        return is_lost

    def _read(self, share):
        packs = rows_of_share(share, self.inputs, RECORD, self._made)
        return [(r["shard"], r["rows"]) for pack in packs for r in pack.to_pylist()]

    def _made(self, table):
        """Make packs of records; what makes them has the batch's context."""
        before = TaskContext.get()
        TaskContext._setTaskContext(self.task)
        try:
            return self.service.making(table)
        finally:
            TaskContext._setTaskContext(before)

    def _pack(self, share):
        """What an operator reads itself, which may wait; then it has the batch's context again."""
        yield from rows_of_share(share, self.inputs, RECORD, self._made)
        TaskContext._setTaskContext(self.task)

    def _begin(self, partition):
        """The two halves of a state partition's task: the operator, and the sink behind it."""
        keys = self.service.keys[partition]
        given = {key: [blob for shard, blob in self.given if shard == key] for key in keys}
        driver, pipe = self.driver, Pipe(self.service.world)
        driver.pipes.append(pipe)
        operator = driver.run_task("operator", lambda: self._step(partition, given, pipe))
        operator.worker.at_death.append(lambda: pipe.ended or pipe.end(cut=True))
        sink = driver.run_task("sink", lambda: self._write(partition, pipe, operator))
        return [operator, sink]

    def _step(self, partition, given, pipe):
        """Step the shards that have packs, or whose time is due; the state after them."""
        before = self.service.storage.load_state(partition, self.batch)
        after = dict(before)
        operator = self.service.operator(self.plan, self._pack)
        try:
            for key in self.service.keys[partition]:
                row, timeout_ms = before.get(key, (None, None))
                timed_out = not given[key] and timeout_ms is not None and timeout_ms < self.now_ms
                if not given[key] and not timed_out:
                    continue
                state = GroupState(row, self.now_ms, timed_out=timed_out)
                frames = iter([{"rows": given[key]}] if given[key] else [])
                TaskContext._setTaskContext(self.task)
                for frame in operator((key,), frames, state):
                    for values in zip(*(frame[name] for name in frame.columns), strict=True):
                        pipe.put(dict(zip(frame.columns, values, strict=True)))
                        wait(self.service.world.rng.expovariate(50))
                after[key] = (state.row, state.timeout_ms)
        except BaseException:
            pipe.end(cut=True)
            raise
        finally:
            TaskContext._setTaskContext(None)
        pipe.end()
        return after

    def _write(self, partition, pipe, operator):
        """Run the sink over the rows; commit the state when it has written them."""
        batches = (pa.RecordBatch.from_pylist([row]) for row in pipe)
        report = Sink(self.plan).run(self.context, partition, batches)
        wait(self.service.world.rng.expovariate(1_000))
        name = self.service.storage.commit_state(partition, self.batch + 1, operator.result)
        return partition, name, report.to_text() if report is not None else None
