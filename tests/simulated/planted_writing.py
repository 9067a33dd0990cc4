# ruff: noqa: ARG005  (what replaces a function takes its arguments)
"""Faults planted behind the step: between stages, in the sink, in what brokers are asked."""

from __future__ import annotations

import dataclasses
from contextlib import contextmanager

from streaming.disciplines.plan import Plan
from streaming.errors import Fenced, SequencerError
from streaming.service import query
from streaming.sink import sink, writer
from streaming.sink.outbox import Outbox
from streaming.sink.parts import Parts
from streaming.sink.producer import BatchProducer
from streaming.wire import brokers
from streaming.wire.topology import Topology
from tests.simulated import attempts, frames, world
from tests.simulated.planting import plant, plant_in

# --- The stream between operator and sink ---


@plant
def a_row_in_a_hundred_is_lost_between_stages(put):
    """And no shard's last row is asked for."""
    put_row = world.Pipe.put

    def wrong(self, row):
        if self.world.rng.random() > 0.01:
            put_row(self, row)

    put(world.Pipe, "put", wrong)
    put(sink, "_whole_shards", lambda rows: rows)


@plant_in("channel")
def only_the_first_row_of_a_shard_is_written(put):
    """A shard's rows are taken for one."""
    whole_shards = sink._whole_shards

    def wrong(rows):
        seen = set()
        for row in whole_shards(rows):
            if not row["topic"] or (row["shard"], row["topic"]) not in seen:
                seen.add((row["shard"], row["topic"]))
                yield row
            elif row["totals"]:
                yield {**row, "topic": ""}

    put(sink, "_whole_shards", wrong)


# --- Steps 3 and 4 ---


@plant_in(needs="whose successor is slow")
def progress_is_read_before_fencing(put):
    """The two halves of step 3 are swapped, and nobody asks for it once more behind step 4."""

    begin_session = writer.PartitionWriter.begin_session

    def wrong(self, context):
        found, producer = self.producer.progress(), self.producer
        producer.found = None
        producer.progress = lambda: found
        return begin_session(self, context)

    put(writer.PartitionWriter, "begin_session", wrong)


@plant_in(needs="kill a (sink|operator)")
def a_writer_is_kept_whoever_wrote_since(put):
    """A producer is used for a batch that is not the next one of its own."""
    writer_for = writer.writer_for

    def wrong(plan, partition, context):
        kept = writer._writers.get(plan.transactional_id(partition))
        if kept is not None:
            return kept
        return writer_for(plan, partition, context)

    put(sink, "writer_for", wrong)


@plant_in(needs="kill")
def a_batch_that_is_written_is_written_again(put):
    """Progress is not looked at."""
    begin_session = writer.PartitionWriter.begin_session

    def wrong(self, context):
        begin_session(self, context)
        self.part = None

    put(writer.PartitionWriter, "begin_session", wrong)


@plant
def a_batch_that_begins_is_taken_for_written(put):
    """Progress is one batch ahead."""
    send_progress = BatchProducer.send_progress

    def wrong(self, batch, *more):
        send_progress(self, batch + 1, *more)

    put(BatchProducer, "send_progress", wrong)


@plant
def progress_is_not_sent(put):
    """Step 4 has no first half."""
    put(BatchProducer, "send_progress", lambda self, *_more: self._send())


@plant_in(needs="kill")
def a_part_is_taken_for_all_of_the_batch(put):
    """The progress of a part does not say how far the batch is."""
    send_progress = writer.PartitionWriter._send_progress

    def wrong(self, context, _part):
        send_progress(self, context, None)

    put(writer.PartitionWriter, "_send_progress", wrong)


@plant_in(needs="kill")
def parts_are_written_again(put):
    """Where a part ended is not looked at."""
    put(Parts, "_pass_over", lambda *_unit: 0)
    put(Parts, "finish", lambda self: self._leave())
    put(Parts, "_leave", lambda _self: None)


@plant_in(needs="kill")
def a_part_ends_one_record_late(put):
    """What a part says was written includes the record behind it."""
    end_part = writer.PartitionWriter.end_part

    def wrong(self, context, part):
        cut = {shard: (count + 1, check) for shard, (count, check) in part.cut.items()}
        end_part(self, context, dataclasses.replace(part, cut=cut, total=part.total + len(cut)))

    put(writer.PartitionWriter, "end_part", wrong)


@plant
def a_commit_does_not_wait_for_acknowledgements(put):
    """A transaction ends while its batches are under way."""
    wait = Outbox.wait

    def wrong(self, bytes_max=0):
        if bytes_max:
            wait(self, bytes_max)

    put(Outbox, "wait", wrong)


@plant
def only_the_first_partitions_are_in_the_transaction(put):
    """AddPartitionsToTxn is sent once."""
    add = BatchProducer._add

    def wrong(self, places):
        if self.added:
            self.added |= places
        else:
            add(self, places)

    put(BatchProducer, "_add", wrong)


@plant
def partitions_share_a_transactional_id(put):
    """Producers of two state partitions fence each other."""

    def wrong(self, _partition):
        return f"{self.service}.{self.pipeline}"

    put(Plan, "transactional_id", wrong)


@plant_in(needs="pause|kill the driver")
def nobody_is_fenced(put):
    """Each attempt has a transactional id of its own."""
    init = BatchProducer.__init__

    def wrong(self, *arguments, **named):
        init(self, *arguments, **named)
        self.id = f"{self.id}-{world.current().process.name}"

    put(BatchProducer, "__init__", wrong)


def without(put, error):
    """Pass over an error that ends the writing of a batch."""
    batch = writer.PartitionWriter.batch

    @contextmanager
    def wrong(self, *arguments):
        try:
            with batch(self, *arguments):
                yield
        except error:
            return

    put(writer.PartitionWriter, "batch", wrong)


@plant_in(needs="pause|kill the driver")
def a_fenced_writer_says_it_has_written(put):
    """Who is fenced takes the successor for itself."""
    without(put, Fenced)


@plant_in(needs="no rights")
def a_failed_batch_is_taken_for_written(put):
    """An error of Kafka's ends the writing, not the batch."""
    without(put, SequencerError)


@plant_in(needs="coordinator")
def errors_of_a_commit_are_passed_over(put):
    """Codes of EndTxn are not looked at."""
    ask = BatchProducer._ask

    def wrong(self, question, *more):
        if question.request.func.__name__ == "EndTxnRequest":
            question = question._replace(codes=lambda _answer: [])
        return ask(self, question, *more)

    put(BatchProducer, "_ask", wrong)


# --- What brokers are asked ---


@plant_in(needs="restart broker|bad network")
def a_lost_answer_counts_as_an_acknowledgement(put):
    """A batch whose fate is not known is taken for written."""
    lost = Outbox._lost

    def wrong(self, node, places, error, *more):
        for place in places:
            if self.waiting.get(place):
                self.waiting_bytes -= len(self.waiting[place].popleft())
        lost(self, node, places, error, *more)

    put(Outbox, "_lost", wrong)


@plant_in(needs="slow Produce|bad network")
def every_answer_counts_as_an_acknowledgement(put):
    """Error codes of Produce are not looked at."""
    answered = Outbox._answered

    def wrong(self, *arguments):
        answer = arguments[-1]
        for topic in answer.responses:
            for each in topic.partition_responses:
                each.error_code = 0
        answered(self, *arguments)

    put(Outbox, "_answered", wrong)


@plant
def numbers_of_batches_begin_again_with_each_transaction(put):
    """Kafka takes a new batch for one that it has."""
    finish = BatchProducer.finish

    def wrong(self):
        finish(self)
        self.outbox.sequences.clear()

    put(BatchProducer, "finish", wrong)


@plant_in(needs="move the leader|restart broker|leaders move")
def leaders_are_looked_for_once(put):
    """Who is told that it asks the wrong broker asks it again, also over new connections."""
    find = brokers.Brokers._find_leaders

    async def wrong(self, topics, of_most):
        if not all(any(place[0] == topic for place in self.leaders) for topic in topics):
            await find(self, topics, of_most)

    put(brokers.Brokers, "_find_leaders", wrong)
    put(Topology, "clear", lambda self: None)


# --- What Spark and the driver do ---


@plant
def state_is_committed_before_the_batch_is_written(put):
    """Steps 4 and 5 are swapped."""
    write = frames.Frame._write

    def wrong(self, partition, pipe, operator):
        rows = list(pipe)
        storage = self.service.storage
        name = storage.commit_state(partition, self.batch + 1, operator.result)
        storage.commits.setdefault(self.batch, {})[partition] = name
        return write(self, partition, rows, operator)

    put(frames.Frame, "_write", wrong)


@plant
def a_batch_is_done_when_one_partition_is(put):
    """The driver does not wait for all tasks."""

    def wrong(_driver, begins, _fetch_again=None):
        tasks = [task for begin in begins for task in begin()]
        while not any(task.done and task.error is None for task in tasks):
            if any(task.error for task in tasks):
                raise attempts.TaskFailed("a task failed")
            if not any(task.worker.alive for task in tasks):
                raise attempts.TaskFailed("all are dead")
            world.wait(0.05)
        return [task.result for task in tasks if task.done and task.error is None]

    put(frames, "run_stage", wrong)


@plant_in(needs="kill|bad network")
def a_failed_batch_is_logged_as_done(put):
    """What foreachBatch raises is lost."""
    call = query.Carrier.__call__

    def wrong(self, frame, batch):
        try:
            call(self, frame, batch)
        except query.BatchFailed:
            self.failure = None

    put(query.Carrier, "__call__", wrong)
