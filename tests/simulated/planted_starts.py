# ruff: noqa: ARG002, ARG005  (what replaces a function takes its arguments)
"""Plants in what a start goes by, after a power cut, a restored checkpoint, or beside another copy."""

from __future__ import annotations

from contextlib import suppress

from streaming.disciplines.channels import shard_files
from streaming.disciplines.channels.shard_files import ShardFiles
from streaming.errors import Fenced
from streaming.service import histories
from streaming.service.decisions import Decisions
from streaming.sink import failures, writer
from streaming.sink.claim import Claim
from streaming.sink.writer import PartitionWriter
from streaming.source import fetching, reader
from streaming.source.fetching import Fetching
from streaming.source.losses import MADE_AGAIN
from streaming.source.watching import TopicWatch
from streaming.wire.topology import Topology
from tests.simulated import spark, storage
from tests.simulated.planting import plant_in

# --- What is on the disk ---


@plant_in(needs="power cut")
def the_id_of_the_query_is_not_synced(put):
    """A start that finds no batch takes the checkpoint for a new one."""
    put(storage.Storage, "_sync_query", lambda self: None)


@plant_in(needs="power cut", folder=True)
def logs_are_not_synced(put):
    """A batch runs whose offsets are in memory only."""
    put(storage.Storage, "sync_logs", lambda self: None)


@plant_in(needs="power cut", folder=True)
def the_state_is_not_synced(put):
    """A batch is logged as done whose state is in memory only."""
    put(storage.Storage, "sync_state", lambda self: None)


@plant_in("channel", needs="power cut", folder=True)
def held_files_are_not_synced(put):
    """A state names files that are in memory only."""
    put(storage.Storage, "sync", lambda self, _path: None)


@plant_in("channel", needs="power cut", folder=True)
def folders_of_held_files_are_not_synced(put):
    """A file's content is on the disk, its name is not."""
    sync = storage.Storage.sync

    def wrong(self, path):
        if path.suffix:
            sync(self, path)

    put(storage.Storage, "sync", wrong)


@plant_in(needs="power cut", folder=True)
def torn_entries_stay_in_the_log(put):
    """What a power cut left half written is not removed."""
    put(storage.Storage, "mend", lambda self: [])


@plant_in("channel", needs="kill", folder=True)
def files_that_the_state_names_are_swept(put):
    """A start removes what it did not write itself."""
    sweep = ShardFiles.sweep
    put(ShardFiles, "sweep", lambda self, _known, made: sweep(self, (), made))


@plant_in("channel", needs="new operator workers", folder=True)
def files_of_another_attempt_are_swept(put):
    """A file's number says nothing of who still needs it."""
    sweep = ShardFiles.sweep
    put(ShardFiles, "sweep", lambda self, known, _made: sweep(self, known, 1 << 62))


@plant_in("channel", needs="is damaged", folder=True)
def checksums_of_files_are_not_compared(put):
    """Whatever a file has is taken for what was written."""
    put(shard_files, "_checksum", lambda _body: "00000000")


# --- Whether it is the same history ---


@plant_in(needs="is restored")
def a_digest_says_nothing(put):
    """A batch is known by its number."""
    put(Decisions, "digest", lambda self, _batch, _standing: "0.0")
    put(histories, "settle", lambda *_arguments, hold, **_more: hold())


@plant_in(needs="is restored")
def what_the_next_batch_overwrites_counts_as_written(put):
    """A checkpoint that is behind is not refused, and later progress counts for what comes."""
    put(histories, "settle", lambda *_arguments, hold, **_more: hold())
    begin_session = PartitionWriter.begin_session

    def wrong(self, context):
        try:
            return begin_session(self, context)
        except writer.failures.CheckpointBehind:
            return None

    put(PartitionWriter, "begin_session", wrong)


@plant_in(needs="late|arrives in|bad network")
def a_part_goes_on_in_a_session_that_was_not_answered(put):
    """Behind a part, nobody asks whether the session may be used again."""

    def wrong(self, context, part):
        self._send_progress(context, part)
        self.producer.finish()

    put(PartitionWriter, "end_part", wrong)


@plant_in(needs="beside a sink", folder=False, part=3)
def whoever_wrote_since_a_part_is_passed_over(put):
    """A new session behind a part goes on, whatever the progress says."""
    put(PartitionWriter, "_renew_session", lambda self: self.producer.begin_session())


@plant_in(needs="repeats are accepted")
def keys_go_on_after_repeats_were_accepted(put):
    """What is repeated has the numbers of what was lost."""
    standing = Decisions.standing

    def wrong(self, *given):
        return {**standing(self, *given), "renewals": []}

    put(Decisions, "standing", wrong)


# --- Two copies ---


@plant_in(needs="another copy", folder=False)
def nobody_takes_the_checkpoint(put):
    """Where no lock keeps two copies apart, nothing does before they write."""
    put(Claim, "take", lambda self: None)
    put(Claim, "renew", lambda self, _batch: None)


@plant_in(needs="another copy is started$", folder=False)
def two_copies_take_the_checkpoint_from_each_other(put):
    """Who was fenced takes it again, whoever has it; and again."""

    def wrong(self):
        while True:
            with suppress(Fenced):
                self._producer.begin_session()
                self.renew(0)
                return

    put(Claim, "_take", wrong)
    put(spark, "Fences", Patience)


@plant_in(needs="the service for 15 s", folder=False)
def who_is_fenced_has_lost_the_checkpoint(put):
    """Late requests of one's own that go on for a while count as another copy."""
    put(failures, "fenced_by_nobody", failures.fenced)
    put(spark, "Fences", Patience)


class Patience:
    """Takes every fence for a late request."""

    def judged(self, failure, *, is_alone):
        """Return an error that passes."""
        return spark.SequencerError("again") if isinstance(failure, Fenced) else failure


# --- Whether it is the same input ---


@plant_in(needs="a deposed leader")
def a_broker_that_is_cut_off_leads(put):
    """Epochs of the checkpoint are not compared with those of leaders."""
    put(Topology, "require", lambda self, *_arguments: None)


@plant_in(needs=r"leader of \('in'|restart broker")
def what_a_new_leader_does_not_know_yet_is_lost(put):
    """An end below what was read counts as a log that was cut back."""
    put(TopicWatch, "_has_all", lambda self, *_arguments: False)


@plant_in(needs="are deleted")
def a_first_batch_begins_where_the_topics_do(put):
    """A first batch that is repeated asks again."""
    going_on = reader.going_on
    put(reader, "going_on", lambda end, losses, _begin: going_on(end, losses, {}))


@plant_in(needs="made again")
def a_topic_that_was_made_again_is_the_same(put):
    """Ids of topics are not compared."""
    losses = TopicWatch._losses

    def wrong(self, start, ends):
        return [each for each in losses(self, start, ends) if each.what != MADE_AGAIN]

    put(TopicWatch, "_losses", wrong)
    put(Fetching, "_require_same_topics", lambda self: None)
    part = fetching.Part

    def named(place, topic_id, *more):
        for topic, known in list(Topologies.ids.items()):
            if topic == place[0]:
                topic_id = known
        return part(place, topic_id, *more)

    put(fetching, "Part", named)
    update = Topology.update

    def noted(self, topics):
        update(self, topics)
        Topologies.ids = dict(self.ids)

    put(Topology, "update", noted)


class Topologies:
    """What was said last."""

    ids = {}  # noqa: RUF012


@plant_in(needs="the end of in")
def logs_that_were_cut_back_are_not_asked_for(put):
    """Epochs of leaders are not compared."""
    put(TopicWatch, "_cut_back", lambda self, *_arguments: {})
    put(Fetching, "_ask_new_leaders", lambda self: None)


@plant_in(needs="are deleted|cut off|move the leader")
def an_offset_out_of_range_is_the_end(put):
    """A range of which a broker has nothing has been read."""
    answered = Fetching._answered

    def wrong(self, asked, parts, answer):
        for place, result in fetching.results(answer, parts):
            if result.error_code == fetching.OffsetOutOfRangeError.errno:
                self.left.pop(place, None)
                result.error_code = 0
        answered(self, asked, parts, answer)

    put(Fetching, "_answered", wrong)
