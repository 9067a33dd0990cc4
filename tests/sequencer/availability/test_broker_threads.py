"""Many publishing and reading threads on small rings, so that they wrap all the time."""

import itertools
import random
import sys
import threading
import time

import pytest

from sequencer.availability import Availability, BrokerClosed, IdTaken, LocalBroker, Result

LIMIT_S = 60
PUBLISHERS = 8
FIRST = 1000


@pytest.fixture(autouse=True)
def restless():
    """Switch threads every 10 µs: more interleavings in the same time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


class Crowd:
    """Threads whose errors fail the test, and whose end is waited for with a limit."""

    def __init__(self):
        self.errors, self.threads = [], []

    def start(self, job, *arguments):
        def guarded():
            try:
                job(*arguments)
            except BaseException as error:  # noqa: BLE001  (raised again in the test's thread)
                self.errors.append(error)

        self.threads.append(threading.Thread(target=guarded, daemon=True))
        self.threads[-1].start()

    def join(self):
        for thread in self.threads:
            thread.join(LIMIT_S)
            assert not thread.is_alive(), f"stuck; errors so far: {self.errors}"
        if self.errors:
            raise self.errors[0]


def publish(broker, who, count, seed, log):
    """Publish ``count`` messages, with up to three drafts open and settled in any order."""
    rng = random.Random(seed)
    drafts = []
    for n in range(count):
        topic = rng.choice(["bus", "bus/a", "bus/a/deep", "bus/b"])
        while True:
            try:  # never wait while drafts are open: they could be what it waits for
                draft = broker.reserve(topic, 0.0 if drafts else LIMIT_S)
                break
            except TimeoutError:
                settle(drafts, rng, who, log)
        draft.fill((who, n, dict(draft.ids)))
        drafts.append(draft)
        if len(drafts) == 3 or rng.random() < 0.5:
            settle(drafts, rng, who, log)
    while drafts:
        settle(drafts, rng, who, log)


def settle(drafts, rng, who, log):
    draft = drafts.pop(rng.randrange(len(drafts)))
    if rng.random() < 0.05:
        draft.abandon()
        log[who].append((dict(draft.ids), None))
    else:
        draft.publish()
        log[who].append((dict(draft.ids), who))


def read_to_the_end(subscription, parked, out):
    """Read all; with ``parked``, stop after 50 messages until it is set."""
    while True:
        try:
            out.append(subscription.read(LIMIT_S))
        except BrokerClosed:
            return
        if parked and len(out) == 50:
            assert parked.wait(LIMIT_S)


def judge(name, read, fates, *, ordered):
    """What one subscriber got, against what the publishers did; fates: id -> publisher or None."""
    position = 0
    for message in read:
        assert message.missed == range(position, message.id), f"{name}: {message} after {position}"
        who, _, ids = message.payload
        assert ids == dict(message.ids), f"{name}: {message} carries another message's payload"
        assert ids[name] == message.id
        assert fates[message.id] == who, f"{name}: {message} was abandoned, or is not {who}'s"
        position = message.id + 1
    rest = [i for i in range(position, len(fates)) if fates[i] is not None]
    assert not rest, f"{name}: the published ids {rest[:5]} at the end never came"
    if ordered == "all":
        lost = [i for m in read for i in m.missed if fates[i] is not None]
        assert not lost, f"{name}: the published ids {lost[:5]} were missed by a reader that fits"


@pytest.mark.parametrize(
    ("capacity", "count"),
    [
        (3, 200),
        (16, 300),
        (24, 300),
        pytest.param(5, 5_000, marks=pytest.mark.slow),
        pytest.param(40, 5_000, marks=pytest.mark.slow),
    ],
)
def test_publishers_and_readers_on_a_wrapping_ring(capacity, count):
    broker, crowd = LocalBroker(capacity), Crowd()
    names = ["bus", "bus/a", "bus/a/deep", "bus/b"]
    reads, done = {}, threading.Event()
    for name in names:
        for mode in ("ordered", "newest"):
            for parked in (None, done):
                out = reads[name, mode, parked] = []
                crowd.start(read_to_the_end, broker.subscribe(name, mode), parked, out)
    log = [[] for _ in range(PUBLISHERS)]
    publishers = Crowd()
    for who in range(PUBLISHERS):
        publishers.start(publish, broker, who, count, who + 1000 * capacity, log)
    publishers.join()
    done.set()
    broker.close()
    crowd.join()

    fates = {name: {} for name in names}
    for ids, fate in (entry for entries in log for entry in entries):
        for name, i in ids.items():
            assert i not in fates[name], f"{name}: id {i} was given twice"
            fates[name][i] = fate
    for name in names:
        assert sorted(fates[name]) == list(range(len(fates[name]))), f"{name}: ids left out"
    assert len(fates["bus"]) == PUBLISHERS * count > 10 * capacity
    for (name, mode, _), read in reads.items():
        judge(name, read, fates[name], ordered=mode)
    lost = {i for m in reads["bus", "ordered", done] for i in m.missed}
    assert any(fates["bus"][i] is not None for i in lost), "the parked reader was not overtaken"
    same_order_in_nested_topics(log)


def same_order_in_nested_topics(log):
    """Two messages that are in two topics both are in the same order there."""
    entries = [ids for publisher in log for ids, _ in publisher]
    for inner, outer in (("bus/a", "bus"), ("bus/a/deep", "bus/a"), ("bus/b", "bus")):
        pairs = sorted((ids[inner], ids[outer]) for ids in entries if inner in ids)
        for before, after in itertools.pairwise(pairs):
            assert before[1] < after[1], f"{inner} and {outer} disagree on {before}, {after}"


@pytest.mark.parametrize("seed", range(3))
def test_a_reader_that_the_ring_has_room_for_misses_nothing(seed):
    broker, crowd = LocalBroker(capacity=4096), Crowd()
    readers = [(name, []) for name in ("bus", "bus/a") for _ in range(2)]
    for name, out in readers:
        crowd.start(read_to_the_end, broker.subscribe(name), None, out)
    log = [[] for _ in range(PUBLISHERS)]
    publishers = Crowd()
    for who in range(PUBLISHERS):
        publishers.start(publish, broker, who, 200, 100 * seed + who, log)
    publishers.join()
    broker.close()
    crowd.join()
    for name, read in readers:
        fates = {ids[name]: fate for entries in log for ids, fate in entries if name in ids}
        judge(name, read, fates, ordered="all")
        assert len(read) == sum(fate is not None for fate in fates.values())


def test_abandoning_from_outside_frees_publishers_that_wait():
    """One draft blocks eight threads; whoever abandons it lets all of them through."""
    broker, crowd = LocalBroker(capacity=1), Crowd()
    broker.reserve("t", 0.0)
    started = threading.Barrier(PUBLISHERS + 1)

    def wait_and_publish(who):
        started.wait(LIMIT_S)
        broker.publish("t", who, LIMIT_S)

    for who in range(PUBLISHERS):
        crowd.start(wait_and_publish, who)
    reader = broker.subscribe("t", start=0)
    started.wait(LIMIT_S)
    broker.oldest_open("t").abandon()
    crowd.join()
    last = reader.read(0.0)
    assert last.id == PUBLISHERS
    assert last.missed == range(PUBLISHERS)


def relay(broker, ids, first_published):
    """Publish these ids, each its own payload; the first one of all begins the topic."""
    for message_id in ids:
        if message_id != FIRST:
            assert first_published.wait(LIMIT_S)
        if message_id % 20 == 13:  # some never come: whoever has them gives them up
            broker.reserve("relay", LIMIT_S, message_id).abandon()
        else:
            broker.publish("relay", (message_id,), LIMIT_S, message_id)
        first_published.set()


@pytest.mark.parametrize("capacity", [2, 16, 64])
def test_publishers_that_bring_the_ids_of_a_stream_in_its_middle(capacity):
    """Eight threads pass a stream on from id 1000, each a part of it, in its own time."""
    broker, crowd, first_published = LocalBroker(capacity), Crowd(), threading.Event()
    count, reads = 400, ([], [])
    for out in reads:
        crowd.start(read_to_the_end, broker.subscribe("relay"), None, out)
    publishers = Crowd()
    for who in range(PUBLISHERS):
        publishers.start(
            relay, broker, range(FIRST + who, FIRST + count, PUBLISHERS), first_published
        )
    publishers.join()
    broker.close()
    crowd.join()
    published = {i for i in range(FIRST, FIRST + count) if i % 20 != 13}
    for read in reads:
        position = FIRST
        for message in read:
            assert message.payload == (message.id,)
            assert message.missed == range(position, message.id)
            position = message.id + 1
        assert position == FIRST + count
        lost = {i for m in read for i in m.missed}
        assert {m.id for m in read} | lost == set(range(FIRST, FIRST + count))
        assert {m.id for m in read} <= published
    with pytest.raises(BrokerClosed):
        broker.reserve("relay", 0.0)


def test_one_id_brought_by_many_publishers_is_taken_once():
    broker, crowd = LocalBroker(), Crowd()
    taken, refused = [], []

    def bring(who):
        for message_id in range(FIRST, FIRST + 100):
            try:
                broker.publish("t", who, LIMIT_S, message_id)
                taken.append(message_id)
            except IdTaken:
                refused.append(message_id)

    for who in range(PUBLISHERS):
        crowd.start(bring, who)
    crowd.join()
    assert sorted(taken) == list(range(FIRST, FIRST + 100))
    assert len(refused) == (PUBLISHERS - 1) * 100


def test_a_word_that_many_threads_join_in_mid_stream():
    """Each thread owns every eighth id from 1000 on, and publishes as soon as there is room."""
    topic, crowd = Availability(), Crowd()
    assert topic.try_reserve(FIRST)

    def publish_own(who):
        for message_id in range(FIRST + who, FIRST + 800, PUBLISHERS):
            while message_id != FIRST and not topic.try_reserve(message_id):
                assert topic.reserve(message_id) is not Result.OLD
                time.sleep(0)
            assert topic.try_make_available(message_id)

    for who in range(PUBLISHERS):
        crowd.start(publish_own, who)
    crowd.join()
    assert topic.first == FIRST
    assert topic.word == (FIRST + 800) << 16 | 0xFFFF
