"""The Python of the pages that needs Kafka runs as it stands (`>>>`: `tests/test_docs_examples.py`).

The topics that an example names have a delivery; reading ends where it asks for the next one.
"""

import asyncio
import json
import re
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streaming import OrderedConsumer, clients
from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.streaming.clients.parallel_readers import out

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.md")])
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
BLOCKS = [
    (page.stem, code)
    for page in PAGES
    for code in BLOCK.findall(page.read_text())
    if ">>>" not in code
]
TOPIC = re.compile(r'"([a-z]+)\.(in|out|failed)"')
KEYS = {"market": b"ann", "bus": b"eve"}
MORE = {
    "market": {"group": b"G", "sender": b"s", "group-sequence": b"0", "group-version": b"0"},
    "bus": {"from": b"bob", "destination": b"eve", "timestamp": b"1"},
}
EVE = 'with OrderedConsumer(kafka, ["bus.out"], discipline="multicast", group="eve") as consumer'
BARRIER = "eve.barrier()"
"""Beside it pages take a sender `eve` and her `consumer` for given."""
MARK = {"output_end": 1, "read_until_ms": 7, "oldest_held_ms": None}


class NoMore(Exception):  # noqa: N818  (no error)
    """The example has had its delivery."""


def prepared(code, prefix):
    """The example with names of its own; whole, where the page takes something for given."""
    if BARRIER in code:
        sender = '    eve = MulticastSender(kafka, "bus.in", "eve")\n'
        code = f"{EVE}:\n{sender}" + "".join(f"    {line}\n" for line in code.splitlines())
    code = TOPIC.sub(rf'"{prefix}\1.\2"', code)
    return re.sub(r'group="([a-z]+)"', rf'group="{prefix}\1"', code)


def given_topics(broker, prefix, code):
    """The topics of an example, with a delivery in those that are read; their names by role."""
    names = set(TOPIC.findall(code)) | (
        {("bus", "in"), ("bus", "out")} if BARRIER in code else set()
    )
    topics = {(pipeline, role): f"{prefix}{pipeline}.{role}" for pipeline, role in sorted(names)}
    marks = {f"{prefix}{pipeline}.progress": pipeline for pipeline, role in names if role == "out"}
    create_topics(broker.bootstrap, dict.fromkeys([*topics.values(), *marks], 1))
    for topic, pipeline in marks.items():
        more = MORE.get(pipeline, {}).items()
        delivery = out(KEYS.get(pipeline, b"K1"), 0, more=more)
        produce(broker.bootstrap, topics[pipeline, "out"], [delivery])
        produce(broker.bootstrap, topic, [Record(b"0", json.dumps(MARK).encode())])
    return topics


@pytest.fixture
def seen(monkeypatch):
    """The deliveries that examples are given; behind the first they are asked to end."""
    found = []
    poll = OrderedConsumer.poll

    def one(consumer, timeout_s=1.0):
        if found:
            raise NoMore
        delivery = poll(consumer, timeout_s)
        found.extend([] if delivery is None else [delivery])
        return delivery

    monkeypatch.setattr(OrderedConsumer, "poll", one)
    return found


@pytest.mark.parametrize(
    ("page", "code"), BLOCKS, ids=[f"{page}-{n}" for n, (page, _) in enumerate(BLOCKS)]
)
def test_it_runs(broker, topic_prefix, seen, page, code):
    topics = given_topics(broker, topic_prefix, code)
    handled = []

    def bill(delivery):
        """A handler, for both forms of the example."""
        handled.append(delivery)
        if "parallel" not in world:
            return asyncio.sleep(0)
        seen.append(delivery)
        return world["parallel"].stop()

    kafka = {"bootstrap.servers": broker.bootstrap}
    producer = Producer(kafka)
    world = {each: getattr(clients, each) for each in clients.__all__}
    world |= {"kafka": kafka, "producer": producer, "bill": bill}
    world |= {"work_on": handled.append, "print": lambda *words: handled.append(words)}
    try:
        exec(compile(prepared(code, topic_prefix), f"{page}.md", "exec"), world)  # noqa: S102  (ours)
    except NoMore:
        assert seen
    assert producer.flush(60) == 0
    written = [topic for (_, role), topic in topics.items() if role == "in"]
    assert all(read_all(broker.bootstrap, topic) for topic in written), "each got something"
    if any(role == "out" for _, role in topics):
        assert len(seen) == 1, "the delivery was given"
    assert world.get("complete_ms", 7) == 7, "the mark was read"
    for name in ("bill(", "work_on(", "print("):
        assert (name not in code) or handled, f"{name}…) was called"


def test_no_example_was_passed_over():
    assert len(BLOCKS) >= 8
    assert {page for page, _ in BLOCKS} >= {"channels", "clients", "following"}
