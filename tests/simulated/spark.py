"""What Spark does for a query: logs, batches, tasks, a state store; here without Spark.

A batch is planned, logged, run and logged as done, as `MicroBatchExecution` does it; a failed task
fails the batch, and the query is started again from its logs. Workers are processes that tasks
share, one after the other; the driver that is killed leaves workers behind for a while.
"""

from __future__ import annotations

import json
from functools import partial
from types import SimpleNamespace

import pyarrow as pa
from pyspark import TaskContext

from streaming.arrow.schemas import RECORD
from streaming.arrow.totals import Totals
from streaming.disciplines.plan import BatchContext
from streaming.disciplines.source import Limits
from streaming.disciplines.state_keys import shard_keys
from streaming.errors import JobFailed
from streaming.service.query import BatchFailed, Carrier, Progress
from streaming.sink.sink import Sink
from streaming.source.reader import Inputs, KafkaReader, rows_of_shares
from tests.simulated.world import BEGAN_MS, Pipe, Process, wait

PLANNING_SECONDS = 0.05
LEFT_SECONDS = 3.0
"""What a killed driver left behind lives for so long at most."""
RESTART_SECONDS = 2.0
TICK_SECONDS = 2.0
TRIGGER_SECONDS = 0.2


class Storage:
    """What outlives processes: Spark's two logs, the state by partition and version, the status."""

    def __init__(self):
        self.offsets, self.commits, self.state = {}, set(), {}
        self.totals = {}
        self.drivers = 0
        self.kept = "{}"

    def batch_in_doubt(self):
        """As `streaming.service.checkpoint` says it."""
        planned = max(self.offsets, default=-1)
        return planned if planned > max(self.commits, default=-1) else -1

    def logged(self, batch):
        """A batch's ends and time."""
        return json.dumps(self.offsets[batch]).encode()

    def decisions(self):
        """What was written last."""
        return json.loads(self.kept)

    def write_decisions(self, values):
        """As a whole or not at all."""
        self.kept = json.dumps(values)

    def sync_logs(self):
        """What is written is kept."""

    def sync_state(self):
        """Likewise."""

    def recover(self):
        """What a driver does before it begins: nothing, as the logs say it all."""


class GroupState:
    """Spark's view of one key's state (`pyspark.sql.streaming.state.GroupState`)."""

    def __init__(self, row, now_ms, *, timed_out):
        self.row, self.now_ms, self.hasTimedOut = row, now_ms, timed_out
        self.timeout_ms = None

    @property
    def exists(self):
        """Whether there is one."""
        return self.row is not None

    @property
    def get(self):
        """The row."""
        return self.row

    def update(self, row):
        """Replace it."""
        self.row = tuple(row)

    def getCurrentProcessingTimeMs(self):  # noqa: N802  (Spark's name)
        """The batch's time."""
        return self.now_ms

    def setTimeoutDuration(self, duration_ms):  # noqa: N802
        """Ask for a call after so long."""
        self.timeout_ms = self.now_ms + duration_ms


class TaskFailed(Exception):  # noqa: N818  (as Spark says it)
    """A task of the batch failed, or its worker died."""


class Service:
    """One pipeline's service: drivers one after the other, until the history ends."""

    driver = None
    ended = None
    batches = 0

    def __init__(self, world, kafka, pipeline):
        self.world, self.kafka, self.plan = world, kafka, pipeline.plan
        self.making, self.operator = pipeline.making, pipeline.operator
        self.storage, plan = Storage(), self.plan
        self.keys = {
            partition: sorted(
                key
                for shard, key in enumerate(shard_keys(plan.shards, plan.state_partitions))
                if shard % plan.state_partitions == partition
            )
            for partition in range(plan.state_partitions)
        }

    def start(self):
        """Begin with a driver; another one takes its place when it dies."""
        self.storage.drivers += 1
        self.driver = Driver(self, self.storage.drivers)


class Driver(Process):
    """The service's driver and JVM, and the workers that they start."""

    def __init__(self, service, number):
        super().__init__(service.world, f"driver {number}")
        self.service, self.storage = service, service.storage
        self.workers = {"source": [], "operator": [], "sink": []}
        self.pipes = []
        self.at_death.append(self._died)
        self.task = self.start(self._drive)

    def _died(self):
        """Streams between workers pass the JVM: they end. The workers notice some time later."""
        for pipe in self.pipes:
            pipe.ended or pipe.end(cut=True)
        for each in [each for group in self.workers.values() for each in group]:
            each.post(self.world.rng.random() * LEFT_SECONDS, each.kill)
        self.world.at(RESTART_SECONDS, self.service.start)

    def _drive(self):
        plan = self.service.plan
        while True:
            try:
                self._query(plan)
            except Exception as error:  # noqa: BLE001  (noted; what it means is judged)
                cause = error
                while cause.__cause__ is not None:
                    cause = cause.__cause__
                self.world.note(f"a batch failed: {type(cause).__name__}: {str(cause)[:300]}")
                if isinstance(cause, JobFailed):
                    self.service.ended = cause
                    return
            wait(self.world.rng.random())

    def _query(self, plan):
        storage = self.storage
        storage.recover()
        progress = Progress(
            in_doubt=storage.batch_in_doubt(),
            shards={s: Totals.from_json(t) for s, t in storage.totals.items()},
        )
        carrier = Carrier(plan, progress, storage, lambda _progress: None)
        carrier.begin("query")
        topics = {topic: number for number, topic in enumerate(plan.reads)}
        inputs = Inputs(topics=topics, properties=plan.producer)
        records_max = self.world.rng.choice([0, 0, 5, 20])
        reader = KafkaReader(inputs, Limits(records_max), plan.state_partitions)
        start = storage.offsets[max(storage.commits)][0] if storage.commits else None
        start = reader.first() if start is None else start
        idle_since = self.world.now
        while True:
            batch = max(storage.commits, default=-1) + 1
            if batch not in storage.offsets:
                wait(TRIGGER_SECONDS)
                end = reader.latest(start)
                if end == start and self.world.now - idle_since < TICK_SECONDS:
                    wait(0.1)
                    continue
                storage.offsets[batch] = (end, self._now_ms())
                wait(PLANNING_SECONDS * self.world.rng.random())
            idle_since = self.world.now
            end, now_ms = storage.offsets[batch]
            source = (reader.shares(start, end), inputs)
            frame = Frame(self, plan, source, batch, now_ms)
            try:
                carrier(frame, batch)
            except BatchFailed as failed:
                raise failed from carrier.failure
            storage.totals = {s: t.to_json() for s, t in progress.shards.items()}
            storage.commits.add(batch)
            self.service.batches += 1
            start = end

    def _now_ms(self):
        return BEGAN_MS + round((self.world.now + self.clock_s) * 1000)

    def worker(self, stage):
        """A worker that has no task; a new one where there is none."""
        workers = self.workers[stage]
        free = [each for each in workers if each.alive and not each.busy]
        if free:
            return self.world.rng.choice(free)
        new = Process(self.world, f"{stage} worker {len(workers)} of {self.name}")
        new.busy = False
        workers.append(new)
        return new

    def run_task(self, stage, work):
        """Begin a task in a worker; what it comes to is known by :meth:`all_of`."""
        worker = self.worker(stage)
        worker.busy = True
        task = worker.start(work)
        worker.at_death.append(lambda: task.waiters and [act() for act in task.waiters])
        task.waiters.append(lambda: setattr(worker, "busy", False))
        task.worker = worker
        return task

    def all_of(self, tasks):
        """Wait for tasks: their results; TaskFailed as soon as one fails."""
        for task in tasks:
            task.waiters.append(lambda: self.task.wake(self.world.rng.expovariate(200)))
        while True:
            for task in tasks:
                if task.error is not None:
                    self._cancel(tasks)
                    raise TaskFailed(f"{type(task.error).__name__}: {task.error}") from task.error
                if not task.done and not task.worker.alive:
                    self._cancel(tasks)
                    raise TaskFailed(f"{task.worker.name} died")
            if all(task.done for task in tasks):
                return [task.result for task in tasks]
            wait(0.5)

    def _cancel(self, tasks):
        """Spark ends what still runs, some time later: its worker goes with it."""
        for task in tasks:
            if not task.done and task.worker.alive:
                self.world.at(self.world.rng.random(), task.worker.kill)


class Frame:
    """What foreachBatch gets: a batch that runs when it is collected."""

    def __init__(self, driver, plan, source, batch, now_ms):
        self.driver, self.service, self.plan = driver, driver.service, plan
        self.shares, self.inputs = source
        self.batch, self.now_ms = batch, now_ms
        self.context = self.task = None
        self.sparkSession = SimpleNamespace(sparkContext=self)

    def setLocalProperty(self, _name, text):  # noqa: N802  (Spark's name)
        """The batch's context; a task has it for as long as it does not wait."""
        self.task = SimpleNamespace(getLocalProperty=lambda _name: text)
        self.context = BatchContext.from_json(text)

    def collect(self):
        """Run the batch: the reports of its state partitions as texts."""
        driver, service = self.driver, self.service
        reads = [partial(self._read, share) for share in self.shares]
        packs = driver.all_of([driver.run_task("source", read) for read in reads])
        rows = [row for some in packs for row in some]
        service.world.rng.shuffle(rows)
        tasks = []
        for partition, keys in service.keys.items():
            given = {key: [blob for shard, blob in rows if shard == key] for key in keys}
            tasks += self._begin(partition, given)
        reports = driver.all_of(tasks)
        return [text for text in reports if isinstance(text, str)]

    def _read(self, share):
        shares = [pa.RecordBatch.from_pydict({"share": pa.array([share], pa.binary())})]
        packs = rows_of_shares(iter(shares), self.inputs, RECORD, self.service.making)
        return [(r["shard"], r["rows"]) for pack in packs for r in pack.to_pylist()]

    def _begin(self, partition, given):
        """The two stages of a state partition: the operator, and the sink behind it."""
        driver, pipe = self.driver, Pipe(self.service.world)
        driver.pipes.append(pipe)
        operator = driver.run_task("operator", lambda: self._step(partition, given, pipe))
        operator.worker.at_death.append(lambda: pipe.ended or pipe.end(cut=True))
        sink = driver.run_task("sink", lambda: self._write(partition, pipe, operator))
        return [operator, sink]

    def _step(self, partition, given, pipe):
        """Step the shards that have packs, or whose time is due; the state after them."""
        storage, version = self.service.storage, self.batch
        before = storage.state.get((partition, version), {})
        after = dict(before)
        try:
            for key in self.service.keys[partition]:
                row, timeout_ms = before.get(key, (None, None))
                timed_out = not given[key] and timeout_ms is not None and timeout_ms <= self.now_ms
                if not given[key] and not timed_out:
                    continue
                state = GroupState(row, self.now_ms, timed_out=timed_out)
                frames = iter([{"rows": given[key]}] if given[key] else [])
                TaskContext._setTaskContext(self.task)
                for frame in self.service.operator(self.plan)((key,), frames, state):
                    for record in frame.to_dict("records"):
                        pipe.put(record)
                        wait(self.service.world.rng.expovariate(50))
                after[key] = (state.row, state.timeout_ms)
        except BaseException:
            pipe.end(cut=True)
            raise
        pipe.end()
        return after

    def _write(self, partition, pipe, operator):
        """Run the sink over the rows; commit the state when it has written them."""
        batches = (pa.RecordBatch.from_pylist([row]) for row in pipe)
        report = Sink(self.plan).run(self.context, partition, batches)
        wait(self.service.world.rng.expovariate(1_000))
        self.service.storage.state[partition, self.batch + 1] = operator.result
        return report.to_text() if report is not None else None
