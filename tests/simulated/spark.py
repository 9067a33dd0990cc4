"""What Spark does for a query: logs, batches, tasks, a state store; here without Spark.

A batch is planned, logged, run and logged as done, as `MicroBatchExecution` does it; a failed task
fails the batch (or runs again: `attempts`), and the query is started again from its logs. Workers are processes that tasks
share, one after the other; the driver that is killed leaves workers behind for a while.
"""

from __future__ import annotations

from streaming.arrow.pack import PACKED
from streaming.arrow.schemas import RECORD
from streaming.arrow.totals import Totals
from streaming.disciplines.exchange import ExchangeOperator
from streaming.disciplines.source import Limits, Reading
from streaming.disciplines.state_keys import shard_keys
from streaming.errors import Fenced, GapTimeout, JobFailed, SequencerError
from streaming.service.histories import settle_alone
from streaming.service.marks import MarksWriter
from streaming.service.progress import Progress
from streaming.service.query import BatchFailed, Carrier
from streaming.sink.claim import Claim
from streaming.sink.fences import Fences
from streaming.sink.sink import Written
from streaming.source.losses import Acceptance
from streaming.source.reader import Inputs, KafkaReader
from streaming.spark.failures import as_sequencer_error
from tests.simulated.attempts import LEFT_SECONDS
from tests.simulated.frames import Frame
from tests.simulated.registry import Stopping
from tests.simulated.world import BEGAN_MS, Process, wait

PLANNING_SECONDS = 0.05
RESTART_SECONDS = 2.0
STOPPED_SECONDS = 0.05
TICK_SECONDS = 2.0
WAKING_BATCHES = 2
STILL_MS = 10_000
TRIGGER_SECONDS = 0.2
REPEATS, LOST = "repeats", "lost input"
MISTAKES = (AssertionError, AttributeError, LookupError, NameError, TypeError, ValueError)


class Service:
    """One pipeline's service: drivers one after the other, until the history ends.

    ``driver``: the newest. ``ended``: why the last one ended for good. ``clock_s``: how far the
    clocks of its machine are off. ``restart_seconds``: until another driver takes the place of one
    that died. ``newcomers``: what is to be done to new workers. ``accepts``: options that the next
    start is given, as to repeats and lost input; it is given them again where it does not get far.
    ``surprises``: what no program that is right raises. ``tries``: how often a task may fail.
    ``ticks``: how many batches a query begins with at once, whether or not it has something to read.
    ``wakes``: whether all shards are stepped in a query's first batches (`reader.Ticks`).
    ``stopped``: whoever starts it waits. ``at_done``: called with where each batch began.
    ``registry``: of schemas, None where values need none.
    """

    tries = 1
    wakes = stopped = False
    at_done = registry = None
    driver = ended = first_failure = None
    batches = starts = restarts = 0
    clock_s = 0.0
    restart_seconds = RESTART_SECONDS
    ticks = 0
    accepts = frozenset()

    def __init__(self, world, kafka, pipeline, storage):
        self.world, self.kafka = world, kafka
        self.storage = storage
        self.newcomers, self.surprises = [], []
        self.take(pipeline)

    def take(self, pipeline):
        """Start with this pipeline from now on."""
        self.plan, self.plans = pipeline.plan, [pipeline.plan, *pipeline.others]
        self.making, self.operator = pipeline.making, pipeline.operator
        self.reads_itself = not issubclass(self.operator, ExchangeOperator)
        self.keys = keys_of(self.plan)

    def plan_of_now(self):
        """What the file says when a query starts; rules may be others than before."""
        return self.world.rng.choice(self.plans) if self.plans[1:] else self.plan

    def start(self):
        """Begin with a driver; another one takes its place when it dies."""
        if self.stopped:
            return
        self.starts += 1
        self.driver = Driver(self, self.starts)

    def restart(self):
        """Begin with another driver in the place of one that died."""
        if self.stopped:
            self.world.at(STOPPED_SECONDS, self.restart)
            return
        self.restarts -= 1
        self.start()

    def end(self, failure):
        """One driver ends for good; where another works, the service does not.

        Somebody starts it again where a gap was waited for in vain.
        """
        if isinstance(failure, GapTimeout):
            self.restarts += 1
            self.world.at(self.restart_seconds, self.restart)
            return
        if self.first_failure is None or isinstance(self.first_failure, Fenced):
            self.first_failure = failure
        self.ended = None if self.works() else self.first_failure

    def works(self):
        """Whether a driver does, an older one or the newest, or is about to."""
        return self.restarts > 0 or bool(self.working())

    def accepts_lost_input(self):
        """Whether the next start will pass over a loss, or one that has not looked at its input."""
        looking = any(each.accepted and each.accepted.topics for each in self.working())
        return looking or LOST in self.accepts

    def working(self):
        """The drivers that do."""
        return [each for each in self.processes() if isinstance(each, Driver) and each.works]

    def processes(self):
        """All that live."""
        return [each for each in self.world.processes if each.alive and each.of is self]


class Driver(Process):
    """The service's driver and JVM, and the workers that they start.

    It goes on after failures, as `streaming.service.run` and `pipeline` do. ``alike``: how many of
    them in a row were as the one before.
    """

    def __init__(self, service, number):
        super().__init__(service.world, f"driver {number}")
        self.service, self.storage = service, service.storage
        self.of = service
        self.clock_s = service.clock_s
        self.workers = {"source": [], "operator": [], "sink": []}
        self.pipes = []
        self.fences, self.claim, self.accepted = Fences(), None, None
        self.marks = self.written = None
        self.at_death.append(self._died)
        self.works = True
        self.said, self.alike = "", 0
        self.task = self.start(self._drive)

    def _died(self):
        """Streams between workers pass the JVM: they end. The workers notice some time later."""
        for pipe in self.pipes:
            pipe.ended or pipe.end(cut=True)
        for each in [each for group in self.workers.values() for each in group]:
            each.post(self.world.rng.random() * LEFT_SECONDS, each.kill)
        self.works = False
        if self.service.driver is self or not self.service.works():
            self.service.restarts += 1
            self.world.at(self.service.restart_seconds, self.service.restart)

    def _drive(self):
        self.storage.begin()
        while True:
            carrier = None
            try:
                plan = self.service.plan_of_now()
                carrier = self._start(plan)
                self._query(plan, carrier)
            except Exception as error:  # noqa: BLE001  (noted; what it means is judged)
                self.service.surprises += _surprises(error)
                failure = _cause(error)
                if carrier is not None:
                    failure = self.fences.judged(failure, is_alone=True)
                said = f"{self.name}: {type(failure).__name__}: {str(failure)[:300]}"
                self.world.note(said)
                self.alike = self.alike + 1 if said == self.said else 0
                self.said = said
                if isinstance(failure, JobFailed):
                    self.works = False
                    self.service.end(failure)
                    return
            rest = self.world.now + self.world.rng.random()
            while self.world.now < rest:  # tasks that end late wake it, too
                wait(rest - self.world.now)

    def _start(self, plan):
        """What `streaming.service.pipeline.Pipeline.start` does; the carrier of a new query."""
        storage = self.storage
        storage.require_whole()
        accepts = self.service.accepts
        if not storage.lockable:
            self.claim = self.claim or Claim(plan)
        remembered = settle_alone(
            plan,
            storage,
            lambda text, **_more: self.world.note(text),
            self.fences,
            self.claim,
            accept_repeats=REPEATS in accepts,
            accept_lost_input=LOST in accepts,
        )
        if accepts:
            self.accepted = Acceptance({*plan.reads} if LOST in accepts else set(), self.world.note)
            self.service.accepts = frozenset()
        progress = Progress(
            in_doubt=storage.batch_in_doubt(),
            remembered=remembered,
            latest=dict.fromkeys(range(plan.state_partitions + 1), storage.planned()),
            shards={s: Totals.from_json(t) for s, t in storage.totals.items()},
        )
        if plan.progress:
            self._mark(plan, progress)
        registry = self.service.registry
        carrier = Carrier(plan, progress, storage, self._note, self.claim, registry, STILL_MS)
        if registry is not None:
            carrier._schemas._stopping = Stopping()
        carrier.begin(storage.name_query(f"query-{self.service.starts}"))
        return carrier

    def _mark(self, plan, progress):
        """Have progress marks written, as `streaming.service.pipeline.Pipeline.start` does."""
        progress.written = self.written or Written()
        self.marks = MarksWriter(plan, self.storage, progress, self._say, self.marks)
        self.marks.begin(self.storage.noted if progress.in_doubt < 0 else -1)

    def _say(self, text, **_more):
        self.world.note(text)

    def _note(self, progress):
        """What the service does when a batch is written."""
        if self.marks is not None:
            self.written = progress.written
            self.marks.note(progress.batch)
            self.storage.note(progress)

    def _query(self, plan, carrier):
        storage = self.storage
        topics = {topic: number for number, topic in enumerate(plan.reads)}
        inputs = Inputs(topics=topics, properties=plan.producer)
        records_max = self.world.rng.choice([0, 0, 5, 20])
        keys = shard_keys(plan.shards, plan.state_partitions) if self.service.reads_itself else ()
        most = (RECORD, self.service.making, PACKED, plan.state_partitions, Limits(records_max))
        reader = KafkaReader(inputs, Reading(topics, *most, keys), self.accepted)
        batch, start = self._next_batch()
        start = reader.first() if start is None else start
        idle_since, wakes_until = self.world.now, batch + self.service.ticks
        waking_until = batch + (WAKING_BATCHES if self.service.wakes else 0)
        while True:
            if batch not in storage.offsets:
                wait(TRIGGER_SECONDS)
                if self.world.drains:
                    reader.reading = reader.reading._replace(limits=Limits())
                end = reader.latest(start)
                is_tick = self.world.now - idle_since >= TICK_SECONDS or batch < wakes_until
                if end == start and not is_tick and storage.due_ms() >= self._now_ms():
                    wait(0.1)
                    continue
                storage.log_offsets(batch, (end, self._now_ms()))
                wait(PLANNING_SECONDS * self.world.rng.random())
            idle_since = self.world.now
            end, now_ms = storage.entry(batch)
            reader.reading = reader.reading._replace(
                keys=keys if (batch + self.service.starts) % 2 else ()
            )
            frame = Frame(self, plan, (reader.rows(start, end), inputs), batch, now_ms)
            frame.wakes = batch < waking_until
            try:
                carrier(frame, batch)
            except BatchFailed as failed:
                raise failed from carrier.failure
            storage.note(carrier.progress)
            storage.log_commit(batch, frame.names)
            self.service.batches += 1
            if self.service.at_done is not None:
                self.service.at_done(self, start)
            batch, start = batch + 1, end

    def _next_batch(self):
        """Where the logs say that the query goes on: a batch, and where it begins (None: new)."""
        storage = self.storage
        batch = storage.planned()
        storage.read_last(batch)
        if batch in storage.commits:
            batch += 1
        before = storage.offsets.get(batch - 1)
        if batch > 0 and before is None:
            raise JobFailed(f"offsets/{batch - 1} is missing")
        return max(batch, 0), None if before is None else before[0]

    def _now_ms(self):
        return BEGAN_MS + round((self.world.now + self.clock_s) * 1000)

    def worker(self, stage):
        """A worker that has no task; a new one where there is none."""
        workers = self.workers[stage]
        free = [each for each in workers if each.alive and not each.busy and not each.lost]
        if free:
            return self.world.rng.choice(free)
        new = Process(self.world, f"{stage} worker {len(workers)} of {self.name}")
        new.clock_s = self.clock_s
        new.busy = new.lost = False
        new.of = self.service
        workers.append(new)
        for meet in self.service.newcomers:
            meet(new)
        return new

    def run_task(self, stage, work):
        """Begin a task in a worker; what it comes to is known by `run_stage`."""
        worker = self.worker(stage)
        worker.busy = True
        task = worker.start(work)
        worker.at_death.append(lambda: task.waiters and [act() for act in task.waiters])
        task.waiters.append(lambda: setattr(worker, "busy", False))
        task.worker = worker
        return task


def keys_of(plan):
    """The state keys of each state partition."""
    keys = shard_keys(plan.shards, plan.state_partitions)
    return {
        partition: sorted(
            key for shard, key in enumerate(keys) if shard % plan.state_partitions == partition
        )
        for partition in range(plan.state_partitions)
    }


def _surprises(error):
    """What a program raises that is wrong, among an error's causes."""
    found = []
    while error is not None:
        found += [repr(error)] if isinstance(error, MISTAKES) else []
        error = error.__cause__
    return found


def _cause(error):
    """What a query failed of, as the service takes it: one of its own errors."""
    while error.__cause__ is not None and not isinstance(error, SequencerError):
        error = error.__cause__
    return as_sequencer_error(error)
