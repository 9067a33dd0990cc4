"""Runs seeds: which fail, how, and with how few faults."""

from __future__ import annotations

from contextlib import contextmanager
from tempfile import TemporaryDirectory

from sequencer.channels import delays
from sequencer.groups.batch import shard as group_shard
from streaming.disciplines.channels import held_records, shard_files
from streaming.disciplines.groups.batch import core as groups
from streaming.disciplines.multicast.batch import core as multicasts
from streaming.disciplines.multicast.protocol import core as protocol
from streaming.service import query, schemas
from streaming.sink import producer, writer
from streaming.verify import channel_gaps
from streaming.wire import brokers, record_batch
from tests.simulated import uses
from tests.simulated.history import History, refuses
from tests.simulated.judge import faults_of
from tests.simulated.marking import replaced
from tests.simulated.network import Manager, Network
from tests.simulated.planting import ANY
from tests.simulated.world import current

BODY_BYTES_MAX = 100
"""So that a few records are several batches and several requests."""
MORE_BODY_BYTES_MAX = 1_500
"""In every other history in which records are refused, so that a batch has some that are not."""
PIECE_BYTES = 400
"""So that a shard gives several rows, and holds several segments."""
SMALL = {
    (groups, "IDLE_MAX"): 2,
    (groups, "SLICE_MAX"): 3,
    (group_shard, "SLICE_MAX"): 3,
    (group_shard, "LINES_MAX"): 10,
    (group_shard, "CIRCLES_IDLE_MAX"): 2,
    (multicasts, "SLICE_MAX"): 3,
    (protocol, "IN_FLIGHT_MAX"): 3,
    (protocol, "READ_MAX"): 2,
}
"""In every other history of `uses`."""
SAMPLES_MIN = 20
"""So that gap times adapt to the delays of some messages."""
FILE_BYTES_MIN = 150
"""So that a few held records are files."""


@contextmanager
def on_simulated_machines(body_bytes_max=BODY_BYTES_MAX, *, small=False):
    """Put the simulated network and Spark in the place of the real ones.

    ``small``: tables are tidied, cut and waited for when they have a few rows.
    """
    new = {
        **(SMALL if small else {}),
        (brokers, "Selector"): Network,
        (brokers, "Connections"): Manager,
        (query, "collected"): lambda frame, _is_again: frame.collect(),
        (query, "say"): lambda *_arguments, **_more: None,
        (schemas, "say"): lambda *_arguments, **_more: None,
        (query, "say_commands"): lambda *_arguments, **_more: None,
        (producer, "SENT_BYTES_MIN"): 1,
        (record_batch, "BODY_BYTES_MAX"): body_bytes_max,
        **replaced(),
        (writer, "logged_in"): logged_in,
        (shard_files, "FILE_BYTES_MIN"): FILE_BYTES_MIN,
        (delays, "SAMPLES_MIN"): SAMPLES_MIN,
        (channel_gaps, "SAMPLES_MIN"): SAMPLES_MIN,
        (held_records, "PIECE_BYTES"): PIECE_BYTES,
        (held_records, "SEGMENT_BYTES"): 2 * PIECE_BYTES,
    }
    before = {place: getattr(*place) for place in new}
    for place, value in new.items():
        setattr(*place, value)
    try:
        yield
    finally:
        for place, value in before.items():
            setattr(*place, value)


def logged_in(_folder, batch):
    """Stand in for `streaming.sink.writer.logged_in`."""
    storage = current().process.of.storage
    return storage.logged_if_kept(batch) if storage.lockable else None


def run(seed, keep=None, aim=ANY):
    """One history; its faults (empty: all is well) and the history itself."""
    is_more = refuses(seed, aim) and seed % 2
    body_bytes_max = MORE_BODY_BYTES_MAX if is_more else BODY_BYTES_MAX
    small = uses.drawn(seed, aim) is not None and seed % 2 == 0
    machines = on_simulated_machines(body_bytes_max, small=small)
    with machines, TemporaryDirectory() as folder:
        history = History(seed, folder, keep=keep, aim=aim)
        history.run()
        return faults_of(history), history


def shrink(seed, aim=ANY):
    """The fewest of a failing seed's faults with which it still fails."""
    _, history = run(seed, aim=aim)
    keep = set(range(len(history.faults)))
    for number in sorted(keep):
        if run(seed, keep - {number}, aim)[0]:
            keep -= {number}
    return keep
