"""Every broker that is claimed: what is written and read there, and a service at work (`make brokers`)."""

import random
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest

from streaming.disciplines.plan import BatchContext, Plan
from streaming.service.standing import progress_of
from streaming.sink import producer
from streaming.sink.producer import BatchProducer
from streaming.sink.writer import make_confirming, make_producer, writer_for
from tests.kafka_helpers import Record, create_topics, make_topic, produce, read_all
from tests.originals.brokers import VERSIONS, broker_of
from tests.originals.comparing import all_alike, contents, write
from tests.originals.readers import Readers, give_codecs
from tests.originals.segments import dumped, segment
from tests.originals.writers import writers
from tests.proxies import Proxies
from tests.service_helpers import channel_topics, run_once, verify, write_config

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
FATES = ("committed", "aborted", "goes on")
NEWEST_MS = 1_700_000_000_000


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


def test_a_broker(version, tmp_path):
    with ExitStack() as stack:
        give_codecs(stack.enter_context(pytest.MonkeyPatch.context()))
        data = tmp_path / "broker"
        broker = broker_of(version, data=data, properties={"log.retention.ms": "-1"})
        stack.callback(broker.close)
        topic = originals(broker.bootstrap, stack)
        service(broker.bootstrap, tmp_path)
        late_progress(broker.bootstrap, stack)
        broker.stop()
        for partition in (0, 1):
            assert dumped(segment(broker, topic, partition))


def late_progress(bootstrap, stack):
    """A TxnOffsetCommit that comes when its batch is written: who asks for progress gets it."""
    proxies = stack.enter_context(Proxies(bootstrap))
    stack.enter_context(pytest.MonkeyPatch.context()).setattr(producer, "ENDED_SECONDS_MAX", 2.0)
    name = uuid.uuid4().hex[:8]
    create_topics(bootstrap, {f"{name}events": 1})
    plan = Plan(
        service=name,
        pipeline="p",
        inputs=("in",),
        partitions={},
        output="out",
        rejects="rejects",
        events=f"{name}events",
        producer={"bootstrap.servers": proxies.bootstrap},
    )
    late = proxies.hold("TxnOffsetCommit", 1)
    with ThreadPoolExecutor(1) as meanwhile:
        cut = meanwhile.submit(lambda: (late.wait(), proxies.cut()))
        progress_after(plan, 0)
        cut.result(60)
    time.sleep(1.0)  # until the batch's markers are written
    answers = proxies.watch("TxnOffsetCommit", answers=True)
    late.release()
    answers.wait()
    assert make_producer(plan, 0).progress_left()[0] == 0
    assert progress_after(plan, 1) == 1
    late_confirmation(plan, proxies)


def late_confirmation(plan, proxies):
    """The same of who confirms the progress; and a start finds what an earlier one left so."""
    for ask in (BatchProducer.newest_progress, as_before):
        late = proxies.hold("TxnOffsetCommit", 1)
        asking = make_confirming(plan, 0)
        asking.begin_session()
        with ThreadPoolExecutor(1) as meanwhile:
            cut = meanwhile.submit(lambda late=late: (late.wait(), proxies.cut()))
            ask(asking)
            cut.result(60)
        time.sleep(1.0)
        answers = proxies.watch("TxnOffsetCommit", answers=True)
        late.release()
        answers.wait()
        assert progress_of(plan, 0, confirmed=False).batch == 1


def as_before(asking):
    asking._commit_offset(0, "")
    asking._end(committed=False)


def progress_after(plan, batch):
    writer = writer_for(plan, 0, BatchContext("q", batch))
    with writer.batch(BatchContext("q", batch)):
        pass
    return make_producer(plan, 0).progress_left()[0]


def originals(bootstrap, stack):
    """Producers of all kinds, compressions and fates: three readers find the same."""
    topic, rng = f"originals-{uuid.uuid4().hex[:8]}", random.Random(5)
    make_topic(bootstrap, topic, 2)
    readers = stack.enter_context(Readers(bootstrap))
    made = [stack.enter_context(closing(each)) for each in writers(bootstrap)]
    kinds = [None, b"", b"k", b"x" * 64, b"x" * 8_192]
    turns = []
    for number in [*range(len(made)), *(rng.randrange(len(made)) for _ in range(10))]:
        records = [
            Record(
                *(rng.choice(kinds), rng.choice(kinds)),
                [("h", rng.choice(kinds))] * rng.randrange(3),
                rng.randrange(2),
                NEWEST_MS - rng.randrange(10**6),
            )
            for _ in range(rng.randrange(1, 8))
        ]
        turns.append((number, records, rng.choice(FATES)))
    committed = write(made, topic, turns)
    ends = readers.ends(topic)
    found = all_alike(readers, topic, {at: (0, end) for at, end in ends.items()})
    assert contents(found) == contents(committed)
    return topic


def service(bootstrap, folder):
    """A service makes its topics, is run twice, and delivers in order, exactly once."""
    topics = channel_topics("t.")
    create_topics(bootstrap, {topics["input"]: 1})
    config = write_config(folder, bootstrap, {"p": topics}, create_topics=True)
    for first in (0, 50):
        records = [
            Record(b"k%d" % (n % 7), b"%d" % n, [("label", b"%d" % (n // 7))], 0)
            for n in range(7 * first, 7 * (first + 50))
        ]
        random.Random(first).shuffle(records)
        produce(bootstrap, topics["input"], records)
        run_once(config)
    assert len(read_all(bootstrap, topics["output"])) == 700
    code, said = verify(config)
    assert code == 0, said
