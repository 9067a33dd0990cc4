# ruff: noqa: ARG005  (what replaces a function takes its arguments)
"""Faults planted in what becomes of records that Kafka refuses for good."""

from __future__ import annotations

from streaming.disciplines.inquiries import Inquiries
from streaming.disciplines.undelivered import Dropping, LeavingOut
from streaming.service.query import FINDING, Carrier
from streaming.sink import outbox
from streaming.sink.producer import BatchProducer
from streaming.sink.refusals import sorted_out
from streaming.sink.writer import PartitionWriter
from tests.simulated import frames, storage
from tests.simulated.planting import plant_in


@plant_in(refuses=True)
def a_batch_is_refused_with_its_worst_record(put):
    """Of a batch whose refused records Kafka does not name, all count as refused."""

    def wrong(topic, batch, partition, *, in_order):
        found, again = sorted_out(topic, batch, partition, in_order=in_order)
        while again:
            found += sorted_out(topic, again.pop(), partition, in_order=in_order)[0]
        return found, []

    put(outbox, "sorted_out", wrong)


@plant_in(refuses=True)
def what_is_refused_is_passed_over(put):
    """What Kafka takes of a batch is committed."""
    finish = BatchProducer.finish

    def wrong(self):
        self._send()
        self.outbox.wait()
        self.refusals.clear()
        finish(self)

    put(BatchProducer, "finish", wrong)


@plant_in(refuses=True)
def only_the_newest_refusals_count(put):
    """A run of a batch does not know what the runs before it were refused."""
    again = Carrier._again

    def wrong(self, context, found):
        newest = {FINDING: found[FINDING][-1:]} if FINDING in found else {}
        return again(self, context, {**found, **newest})

    put(Carrier, "_again", wrong)


@plant_in("group", refuses=True)
def a_copy_that_is_left_out_spends_a_number(put):
    """The deliveries behind it keep the numbers that they had with it."""
    kept = LeavingOut.kept

    def wrong(self, topic, table):
        left = kept(self, topic, table)
        self.counts.clear()
        return left

    put(LeavingOut, "kept", wrong)


@plant_in("multicast", refuses=True)
def a_message_is_rejected_that_others_get(put):
    """One refused copy is enough."""
    put(Dropping, "_is_nobody_s", lambda self, name, destinations: True)


@plant_in("group", refuses=True)
def what_nobody_gets_is_not_rejected(put):
    """Its events say that nobody gets it, and that is all."""
    put(Dropping, "_is_nobody_s", lambda self, name, destinations: False)


@plant_in("network", refuses=True)
def nobody_is_asked_whether_it_got_a_message(put):
    """What is refused here counts as taken elsewhere."""
    put(Inquiries, "_is_answered", lambda self, *_arguments: True)


@plant_in(
    "group", refuses=True, needs="sight of a operator worker that stands still", kind="retries"
)
def a_late_attempt_writes_what_was_refused(put):
    """An attempt that knows nothing of the refusals begins behind the one that found them."""
    put(PartitionWriter, "_need_another_run", lambda self, context: None)


@plant_in(refuses=True)
def the_states_of_the_first_run_count(put):
    """Spark takes the first state that is named for each partition."""
    collect = frames.Frame.collect

    def wrong(self):
        before = self.names
        texts = collect(self)
        self.names = {**self.names, **before}
        return texts

    put(frames.Frame, "collect", wrong)


@plant_in(refuses=True, needs="another copy", folder=False)
def states_have_no_names(put):
    """A late attempt's state replaces that of the run that counts."""
    commit = storage.Storage.commit_state

    def wrong(self, partition, version, rows):
        self.named_states = 0
        return commit(self, partition, version, rows)

    put(storage.Storage, "commit_state", wrong)


@plant_in(refuses=True, part=1)
def a_refusal_ends_with_its_part(put):
    """The next part of a batch begins with nothing refused, and its last one is committed."""
    end_part = PartitionWriter.end_part

    def wrong(self, context, part):
        end_part(self, context, part)
        self.producer.refusals.clear()

    put(PartitionWriter, "end_part", wrong)
