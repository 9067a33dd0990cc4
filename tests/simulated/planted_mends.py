# ruff: noqa: ARG001, ARG005  (what replaces a function takes its arguments)
"""Plants that take back what guards against a known fault."""

from __future__ import annotations

from streaming.disciplines.channels import shard_files
from streaming.disciplines.channels.shard_files import ShardFiles
from streaming.service import histories
from streaming.sink import sink, writer
from streaming.sink.fences import Fences
from streaming.sink.outbox import Outbox
from streaming.sink.producer import BatchProducer
from streaming.source.watching import TopicWatch
from streaming.wire.leaders import PartitionRequests
from tests.simulated import storage, world
from tests.simulated.planting import plant_in


class Anyone:
    """Equals every broker."""

    __hash__ = None

    def __eq__(self, _other):
        return True


@plant_in(needs="kill")
def a_stream_that_is_cut_has_ended(put):
    """Rows that did not come are taken for rows that are not there, and no shard's end is asked for."""
    end = world.Pipe.end

    def wrong(self, *, cut=False):
        end(self, cut=False)

    put(world.Pipe, "end", wrong)
    put(sink, "_whole_shards", lambda rows: rows)


@plant_in(needs="behind a slow Produce")
def two_acknowledgements_count_for_one_batch(put):
    """A partition has several requests in flight, and an answer takes off whatever is first."""

    def wrong(self):
        asked = {}
        for place in self._wanted():
            node = self.brokers.leaders.get(place)
            if node is None:
                self.stale_topics.add(place[0])
            elif node not in self.busy_nodes:
                asked.setdefault(node, []).append(place)
        for node, places in asked.items():
            self._request(node, places)

    put(PartitionRequests, "_send", wrong)
    put(Outbox, "_is_first", lambda self, place, _data: bool(self.waiting.get(place)))


@plant_in(needs="late EndTxn|EndTxn arrives")
def a_session_goes_on_after_a_request_without_an_answer(put):
    """EndTxn and its kin are repeated in the same epoch."""
    put(BatchProducer, "is_reusable", property(lambda self: True))


@plant_in(needs="kill a (sink|operator)")
def a_writer_is_kept_one_batch_too_long(put):
    """It is used for a batch that it has written, too."""
    writer_for = writer.writer_for

    def wrong(plan, partition, context):
        name = plan.transactional_id(partition)
        kept = writer._writers.get(name)
        if kept is not None and kept.last_batch == context.batch:
            return kept
        return writer_for(plan, partition, context)

    put(sink, "writer_for", wrong)


@plant_in(needs="InitProducerId")
def a_fence_ends_the_service(put):
    """A service that is fenced by its own past does not go on."""
    put(Fences, "judged", lambda self, failure, *, is_alone: failure)


@plant_in(needs="is restored")
def an_older_checkpoint_counts_as_the_newest(put):
    """Progress is compared by numbers alone."""
    begin_session = writer.PartitionWriter.begin_session

    def wrong(self, context):
        self.producer.begin_session()
        progress = writer.BatchProgress.from_text(*self.producer.progress())
        if progress is not None and progress.batch > context.batch:
            return progress
        if progress is not None and progress.batch == context.batch and progress.part is None:
            return progress
        return begin_session(self, context)

    put(histories, "settle", lambda *_arguments, hold, **_more: hold())
    put(writer.PartitionWriter, "begin_session", wrong)


@plant_in(needs="power cut", folder=True)
def nothing_is_synced(put):
    """What a batch rests on is left in memory."""
    put(storage.Storage, "_sync", lambda self, *_names: None)
    put(storage.Storage, "sync", lambda self, _path: None)


@plant_in(needs="are deleted|is lost|made again")
def lost_input_is_passed_over(put):
    """What is no longer there is not missed."""
    put(TopicWatch, "_losses", lambda self, _start, _ends: [])


@plant_in(needs="kill who writes")
def a_deposed_coordinator_tells_the_progress(put):
    """Whoever takes the progress is not asked whether it knows the one that was read."""
    send_progress = BatchProducer.send_progress

    def wrong(self, batch, metadata):
        self.found = None
        send_progress(self, batch, metadata)

    put(BatchProducer, "send_progress", wrong)


@plant_in(needs="found by who ends transactions")
def a_deposed_coordinator_ends_the_transaction(put):
    """Whoever says that it is committed need not be who took it."""
    add = BatchProducer._add_to_transaction

    def wrong(self, question):
        add(self, question)
        self.in_charge = Anyone()

    put(BatchProducer, "_add_to_transaction", wrong)


@plant_in(needs="is compacted")
def a_repeat_may_have_fewer_records(put):
    """How many records a batch was made of is not held against what is left of it."""
    put(sink.Sink, "_require_same_input", lambda self, *_arguments: None)


@plant_in("channel", needs="waits for its disk", folder=True)
def a_file_that_is_there_counts_as_whole(put):
    """A file has its name before it has its content, and is not written again where it is there.

    That attempts share the names of files that are not whole yet is harmless by itself: an attempt
    that commits has put a whole file in its place before.
    """

    def wrong(self, body, number):
        name = f"{number:x}-{shard_files._checksum(body)}"
        path = self.folder / name
        self._make_folder()
        if not path.exists():
            path.touch()
            shard_files.sync(self.folder)
            path.write_bytes(body)
            shard_files.sync(path)
        return name

    put(ShardFiles, "put", wrong)
