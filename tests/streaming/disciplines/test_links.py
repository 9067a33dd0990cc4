"""Links between shards, where batches are repeated and run several times: at least once."""

import random
from dataclasses import replace

import pytest

from streaming.disciplines.links import CHUNK_FORMAT, SAID_FORMAT, Links
from streaming.errors import CheckpointBehind, InputLost
from tests.seeds import seeds


def written(rng, batches=12):
    """What a shard writes for another in some batches; what their last runs say.

    The state is moved once, and begins with batch 0 again. As runs of a batch go: all have the same
    chunks; each says what the one before said, or more, or nothing of it (where a message turns out
    to be rejected); parts of runs are written, and written again, also after the next batches have
    begun.
    """
    sender, log, chunks, said, every = Links(checkpoint=7), [], [], [], []
    moved = rng.choice([3, batches])
    for batch in range(batches):
        checkpoint, number = (7, batch) if batch < moved else (8, batch - moved)
        before, runs = sender.to_json(), []
        own = [b"chunk %d.%d" % (batch, n) for n in range(rng.choice([0, 0, 1, 3]))]
        words = []
        for run in range(rng.choice([1, 1, 2, 4])):
            sender, _ = Links.of(before)
            sender.checkpoint, sender.batch, sender.run = checkpoint, number, run
            words = [] if run and rng.random() < 0.3 else [*words]
            words += [b"%d.%d.%d" % (batch, run, n) for n in range(rng.choice([0, 0, 1, 2]))]
            spoken = words or ([b""] if run and not own else [])
            runs.append(
                [sender.seal(0, 1, chunk) for chunk in own]
                + [sender.seal(0, 1, each, SAID_FORMAT) for each in spoken]
            )
        for values in runs:
            while rng.random() < 0.3:
                log += values[: rng.randint(0, len(values))]
            log += values
        chunks, said = chunks + own, [*said, spoken]
        every += runs
        if rng.random() < 0.3:  # whoever stood still goes on
            log += rng.choice(every)
    return log, chunks, said


def after(links, **of_batch):
    """The links as a later batch finds them in the state."""
    found, _ = Links.of(links.to_json())
    return replace(found, **of_batch)


def read(log, rng, size):
    """The links of who reads it in batches, from what their state has, and all that it took."""
    reader, chunks, said, count = Links(checkpoint=7), [], [], 0
    while log:
        reader = after(reader, checkpoint=7, batch=reader.batch + 100)
        stop = rng.randint(1, size)
        arrived = reader.take(log[:stop])
        log = log[stop:]
        assert all(source == 0 for some in arrived.values() for source, _ in some)
        chunks += [chunk for _, chunk in arrived[CHUNK_FORMAT]]
        said += [words for _, words in arrived[SAID_FORMAT]]
        count += len(arrived[SAID_FORMAT]) - reader.withdrawn
    return chunks, said, count


@pytest.mark.parametrize("seed", seeds(60, long=3_000))
def test_each_chunk_is_taken_once_and_each_statement_of_a_last_run(seed):
    """However the reader's batches cut what is written."""
    rng = random.Random(seed)
    log, chunks, wanted = written(rng)
    taken, said, count = read(log, rng, rng.choice([1, 3, 10, 1000]))
    assert taken == chunks
    statements = [words for of_batch in wanted for words in of_batch if words]
    assert set(statements) <= set(said)
    assert count == sum(map(len, wanted)), "what is on its way can be counted"
    assert len(words := [each for each in said if each]) == len(set(words))


def test_a_reader_between_two_runs_takes_what_the_next_batch_brings():
    """The first run asks something; the last one does not, and the next batch has its number."""
    first, last = Links(checkpoint=7, batch=5, run=1), Links(checkpoint=7, batch=5, run=2)
    one = [first.seal(0, 1, b"m"), first.seal(0, 1, b"ask", SAID_FORMAT)]
    two = [last.seal(0, 1, b"m")]
    last.batch, last.run = 6, 0
    reader = Links(checkpoint=7, batch=6)
    assert reader.take(one) == {CHUNK_FORMAT: [(0, b"m")], SAID_FORMAT: [(0, b"ask")]}
    assert reader.take(two) == {CHUNK_FORMAT: [], SAID_FORMAT: []}
    assert reader.withdrawn == 1
    reader.batch = 7
    assert reader.take([last.seal(0, 1, b"x")])[CHUNK_FORMAT] == [(0, b"x")]


def test_a_chunk_that_is_missing_is_lost_input():
    sender, reader = Links(checkpoint=7), Links(checkpoint=7, batch=3)
    values = []
    for batch in range(3):
        sender.batch = batch
        values.append(sender.seal(0, 1, b"%d" % batch))
    reader.take(values[:1])
    with pytest.raises(InputLost):
        reader.take(values[2:])


def test_exactly_once_keeps_numbers_alone():
    sender, reader = Links(batch=3), Links()
    assert reader.take([sender.seal(0, 1, b"m")])[CHUNK_FORMAT] == [(0, b"m")]
    assert reader.to_json() == "[[], [[0, 1]]]"
    assert reader.to_json([1]) == "[[], [[0, 1]], [1]]"


def test_what_was_sent_exactly_once_is_taken_by_its_number_at_least_once():
    """Also if the state was moved on the way, and batches began anew."""
    sender, reader = Links(batch=7), Links(checkpoint=7, batch=3)
    values = [sender.seal(0, 1, b"a")]
    sender.batch = 1
    values += [sender.seal(0, 1, b"b")]
    sender.batch, sender.checkpoint = 2, 7
    values += [sender.seal(0, 1, b"c"), values[0]]
    assert [words for _, words in reader.take(values)[CHUNK_FORMAT]] == [b"a", b"b", b"c"]


def test_a_start_exactly_once_between_two_runs_takes_what_the_next_batch_brings():
    """The runs were written, and the first one read, at least once."""
    first, last = Links(checkpoint=7, batch=5, run=1), Links(checkpoint=7, batch=5, run=2)
    reader = Links(checkpoint=7, batch=6)
    reader.take([first.seal(0, 1, b"m"), first.seal(0, 1, b"ask", SAID_FORMAT)])
    values = [last.seal(0, 1, b"m")]
    values += [after(last, batch=6).seal(0, 1, b"x")]
    assert after(reader, batch=7).take(values)[CHUNK_FORMAT] == [(0, b"x")]


def test_a_batch_that_was_begun_exactly_once_is_taken_once_at_least_once():
    """And what its runs say, of which a shard read the first alone."""
    before = Links(checkpoint=7, batch=4)
    reader = Links(checkpoint=7, batch=5)
    reader.take([before.seal(0, 1, b"a")])
    begun = after(before, batch=5)
    values = [begun.seal(0, 1, b"b"), begun.seal(0, 1, b"c")]
    for run, words in [(1, b"ask"), (2, b"report")]:
        sender = after(before, checkpoint=7, batch=5, run=run)
        values += [sender.seal(0, 1, each) for each in (b"b", b"c", b"d")]
        values += [sender.seal(0, 1, words, SAID_FORMAT)]
    reader = after(reader, checkpoint=7, batch=6)
    taken, more = reader.take(values[:6]), reader.take(values[6:])
    assert taken[CHUNK_FORMAT] == [(0, b"b"), (0, b"c"), (0, b"d")]
    assert taken[SAID_FORMAT] == [(0, b"ask")]
    assert more == {CHUNK_FORMAT: [], SAID_FORMAT: [(0, b"report")]}


def test_a_message_of_a_batch_that_is_still_to_come_shows_that_the_checkpoint_is_older():
    sender, reader = Links(checkpoint=7, batch=6), Links(checkpoint=7, batch=6)
    values = [sender.seal(0, 1, b"m")]
    with pytest.raises(CheckpointBehind, match="--accept-repeats"):
        reader.take(values)
    reader.renewals = ((1_000, 6),)
    assert reader.take(values)[CHUNK_FORMAT] == []
    sender.renewals = reader.renewals
    sender.sent.clear()
    reader.batch = 7
    assert reader.take([sender.seal(0, 1, b"n")])[CHUNK_FORMAT] == [(0, b"n")]
