# ruff: noqa: ARG001  (what replaces a function takes its arguments)
"""Faults planted in the way in and in the step."""

from __future__ import annotations

import dataclasses
import json

from streaming.disciplines import broadcast, exchange, shards
from streaming.disciplines.channels import core as channel_core
from streaming.disciplines.channels.held_records import HeldRecords
from streaming.disciplines.channels.shard_files import ShardFiles
from streaming.disciplines.groups.batch.core import BatchCore
from streaming.disciplines.multicast.batch.core import BatchCore as MulticastCore
from streaming.source import fetching, reader
from streaming.source.caught_up import CaughtUp
from streaming.source.fetching import Fetching
from tests.simulated import group_state, spark, world
from tests.simulated.planting import plant, plant_in

# --- The way in ---


@plant
def each_batch_passes_over_its_first_record(put):
    """An offset is taken for the last one that was read."""
    ranges = reader.ranges

    def wrong(*given):
        return [
            dataclasses.replace(each, first=each.first + (each.first > 0))
            for each in ranges(*given)
        ]

    put(reader, "ranges", wrong)


@plant
def a_batch_reads_one_record_too_many(put):
    """An end is taken for the last offset within."""
    fetched = fetching.fetched

    def wrong(place, span, *more):
        return fetched(place, (span[0], span[1] + 1), *more)

    put(fetching, "fetched", wrong)


@plant
def what_was_aborted_is_read(put):
    """Aborted transactions are not passed over."""
    fetched = fetching.fetched

    def wrong(place, span, records, _aborted):
        return fetched(place, span, records, [])

    put(fetching, "fetched", wrong)


@plant_in("asking")
def what_is_unread_is_not_missing(put):
    """Labels are given up for their time, wherever reading stands."""
    put(CaughtUp, "noted", lambda _self, _start, end, *_: end)


@plant_in(needs=r"leader of \('in'|slow Fetch|restart broker")
def an_answer_without_records_is_the_end(put):
    """What has not come is taken for what is not there."""
    answered = Fetching._answered

    def wrong(self, asked, parts, answer):
        for place, each in fetching.results(answer, parts):
            if not each.records:
                self.left.pop(place, None)
        answered(self, asked, parts, answer)

    put(Fetching, "_answered", wrong)


@plant
def a_share_is_left_out(put):
    """The last of a batch's shares has no task."""
    rows = reader.KafkaReader.rows

    def wrong(self, start, end):
        found = rows(self, start, end)
        return found._replace(shares=found.shares[:-1]) if len(found.shares) > 1 else found

    put(reader.KafkaReader, "rows", wrong)


@plant_in(needs="kill|bad network")
def a_start_goes_on_behind_what_was_planned(put):
    """A batch that was planned but not done is not repeated."""
    begin = spark.Driver._next_batch

    def wrong(self):
        batch, _ = begin(self)
        storage = self.storage
        if storage.batch_in_doubt() < 0:
            return begin(self)
        rows = storage.last_state()
        names = {p: storage.commit_state(p, batch + 1, each) for p, each in rows.items()}
        storage.commits[batch] = names
        return batch + 1, storage.offsets[batch][0]

    put(spark.Driver, "_next_batch", wrong)


# --- The step ---


@plant_in(needs="kill")
def a_worker_trusts_the_state_that_it_knows(put):
    """A kept core is used whatever the state store says."""
    take = shards.ShardOperator.take

    def wrong(self, key, row):
        kept = self.cores.get(self._name(self.shards[key]))
        return take(self, key, row if kept is None else row._replace(core=kept[1]))

    put(shards.ShardOperator, "take", wrong)


@plant
def a_batch_has_the_time_of_its_run(put):
    """A repeated batch has another time, so it gives other bytes."""
    init = group_state.GroupState.__init__

    def wrong(self, row, now_ms, **more):
        process = world.current().process
        later_ms = round(process.world.now * 1000)
        init(self, row, world.BEGAN_MS + later_ms, **more)

    put(group_state.GroupState, "__init__", wrong)


@plant_in("channel")
def records_are_taken_as_packs_come(put):
    """Order of arrival is that of the packs."""
    order = channel_core.order_of_arrival
    put(channel_core, "order_of_arrival", lambda rows: channel_core.np.sort(order(rows)))


@plant_in("group")
def shards_take_records_as_packs_come(put):
    """The same where all shards see every record."""
    order = broadcast.order_of_arrival
    put(broadcast, "order_of_arrival", lambda rows: channel_core.np.sort(order(rows)))


@plant_in("channel")
def the_last_held_record_is_forgotten(put):
    """What waits at the end of a shard's table is not in its state."""
    encode = channel_core.encode

    def wrong(shard):
        held = shard.state.held
        if len(held) > 1:
            keep = slice(0, len(held) - 1)
            fields = {f.name: getattr(held, f.name)[keep] for f in dataclasses.fields(held)}
            state = dataclasses.replace(shard.state, held=dataclasses.replace(held, **fields))
            records = dataclasses.replace(
                shard.records, segment=shard.records.segment[keep], row=shard.records.row[keep]
            )
            shard = dataclasses.replace(shard, state=state, records=records)
        return encode(shard)

    put(channel_core, "encode", wrong)


@plant_in("channel")
def sequences_begin_again(put):
    """A channel's `sequence` is not kept."""
    encode = channel_core.encode

    def wrong(shard):
        zero = channel_core.np.zeros_like(shard.state.sequence)
        return encode(
            dataclasses.replace(shard, state=dataclasses.replace(shard.state, sequence=zero))
        )

    put(channel_core, "encode", wrong)


@plant_in("channel")
def rejects_are_not_written(put):
    """Records that are rejected are lost."""
    put(channel_core, "_rejects", lambda *_arguments: iter(()))


@plant_in("channel", needs="kill", folder=True)
def a_file_is_removed_a_batch_early(put):
    """A file that this batch leaves without a use goes before the batch is done."""
    after = HeldRecords.after

    def wrong(self, *arguments, **named):
        found = after(self, *arguments, **named)
        if found.files is not None:
            found.files.remove(found.gone)
        return found

    put(HeldRecords, "after", wrong)


@plant_in("channel", folder=True)
def files_share_a_name(put):
    """A shard's files have a name without a number or a checksum."""
    put_file, get = ShardFiles.put, ShardFiles.get

    def wrong_put(self, body, number):
        name = put_file(self, body, number)
        (self.folder / name).rename(self.folder / "held")
        return "0-held"

    def wrong_get(self, name):
        data = (self.folder / "held").read_bytes()
        return channel_core.pa.py_buffer(data) if name == "0-held" else get(self, name)

    put(ShardFiles, "put", wrong_put)
    put(ShardFiles, "get", wrong_get)


@plant_in("group")
def a_command_takes_effect_behind_the_records_in_one_shard(put):
    """Members of a group do not switch at one point."""
    step = BatchCore.step

    def wrong(self, work):
        if self.number == 1 and len(work.commands):
            none = work.commands.slice(0, 0)
            yield from step(self, dataclasses.replace(work, commands=none))
            work = dataclasses.replace(work, records=work.records.slice(0, 0))
        yield from step(self, work)

    put(BatchCore, "step", wrong)


@plant_in("group")
def a_shard_does_not_count_a_batch_that_has_one_record(put):
    """Shards do not count alike."""
    for kind in (BatchCore, MulticastCore):

        def wrong(self, work, step=kind.step):
            if self.number == 1 and len(work.records) == 1:
                return
            yield from step(self, work)

        put(kind, "step", wrong)


@plant_in("network")
def chunks_are_numbered_anew(put):
    """What a shard has sent to another is not in its state."""
    put(exchange.Links, "to_json", lambda self, _: json.dumps([[], sorted(self.taken.items())]))


@plant_in("network")
def chunks_are_taken_twice(put):
    """What was taken from a shard is not in the state, and its number is not asked for."""
    take = exchange.Links.take

    def wrong(self, values):
        arrived = take(self, values)
        return {form: some * (1 + (len(values) == 2)) for form, some in arrived.items()}

    put(exchange.Links, "take", wrong)
