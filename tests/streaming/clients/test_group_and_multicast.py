"""Clients of groups and multicast: what is sent, and how a reader takes what the service writes."""

import json

import pytest

from streaming import GroupPublisher, MulticastSender, OrderedConsumer
from streaming.clients import Disorder, Hole, Notice
from streaming.errors import ConfigError, SequencerError
from tests.kafka_helpers import Record, create_topics, produce, read_all

UNREACHABLE = {"bootstrap.servers": "127.0.0.1:1"}


def text(number):
    return b"%d" % number


def group_record(group, version, number, sequence, *, key=b"A", stamps=(), incarnation=5):
    shown = [("stamps", json.dumps(stamps).encode())] if stamps else []
    return Record(
        key,
        f"{group}-{version}-{number}".encode(),
        [
            ("sender", b"what the publisher calls so"),
            ("group", group.encode()),
            ("sender", b"s1"),
            ("group-sequence", text(number)),
            ("group-version", text(version)),
            *shown,
            ("sequence", text(sequence)),
            ("incarnation", text(incarnation)),
        ],
    )


def multicast_record(stamp, sequence, *added, key=b"p1", sender=b"p0", own=()):
    return Record(
        key,
        text(stamp),
        [
            *own,
            ("from", sender),
            ("destination", key),
            ("timestamp", text(stamp)),
            *added,
            ("sequence", text(sequence)),
            ("incarnation", b"5"),
        ],
    )


def read(consumer, number):
    found = []
    while len(found) < number:
        delivery = consumer.poll(30)
        assert delivery is not None, found
        found.append(delivery)
    return found


@pytest.fixture
def written(broker, topic_prefix):
    """Writes records into a topic of one partition; gives the topic's name and the address."""
    topic = f"{topic_prefix}out"
    create_topics(broker.bootstrap, {topic: 1})

    def write(*records):
        produce(broker.bootstrap, topic, list(records))
        return {"bootstrap.servers": broker.bootstrap}, [topic]

    return write


def test_a_subscriber_reads_its_groups(written):
    where = written(
        group_record("G0", 0, 0, 0, stamps=[["G0", "G1", 4]]),
        group_record("G1", 0, 0, 0, key=b"B"),
        group_record("G1", 0, 0, 1, stamps=[["G0", "G1", 5]]),
        group_record("G1", 0, 0, 1, stamps=[["G0", "G1", 5]]),
        group_record("G0", 1, 0, 3, stamps=[["G0", "G1", 0]]),
    )
    with OrderedConsumer(*where, discipline="group", group="a", keys=["A"]) as consumer:
        first, second, third = read(consumer, 3)
        assert consumer.poll(1) is None
        assert consumer.causes() == [f"{where[1][0]}/0@4"]
    assert (first.sender, first.group, first.group_version, first.group_sequence) == (
        b"s1",
        "G0",
        0,
        0,
    )
    assert first.stamps == (("G0", "G1", 4),)
    assert first.headers == (("sender", b"what the publisher calls so"), ("group", b"G0"))
    assert (second.group, third.group_version) == ("G1", 1)
    assert consumer.holes == [Hole(b"A", 5, 2, 3)]
    assert consumer.disorders == []


@pytest.mark.parametrize(
    ("later", "what"),
    [
        (("G0", 1, 4, [["G0", "G1", 9]]), "message 4 of version 1 of G0 comes after message 5 "),
        (("G0", 0, 6, [["G0", "G1", 9]]), "message 6 of version 0 of G0 comes after message 5 "),
    ],
)
def test_disorder_in_a_group_is_told(written, later, what):
    group, version, number, stamps = later
    where = written(
        group_record("G0", 1, 5, 0, stamps=[["G0", "G1", 7]]),
        group_record(group, version, number, 1, stamps=stamps),
    )
    told = []
    with OrderedConsumer(
        *where, discipline="group", group="a", on_disorder=told.append
    ) as consumer:
        second = read(consumer, 2)[1]
    assert told == consumer.disorders == [Disorder(second, told[0].what)]
    assert told[0].what.startswith(what)


@pytest.mark.parametrize("version", [2, 3])
def test_numbers_of_an_overlap_fall_only_with_a_version(written, version):
    """Whether the other group had a new one is seen at its next message."""
    where = written(
        group_record("G1", 2, 5, 0, stamps=[["G0", "G1", 7]]),
        group_record("G0", 1, 5, 1, stamps=[["G0", "G1", 8]]),
        group_record("G0", 1, 6, 2, stamps=[["G0", "G1", 0]]),
        group_record("G1", version, 9, 3, stamps=[["G0", "G1", 1]]),
    )
    with OrderedConsumer(*where, discipline="group", group="a") as consumer:
        *_, last = read(consumer, 4)
    what = "number 0 of the overlap of G0 and G1 comes after 8"
    assert consumer.disorders == ([Disorder(last, what)] if version == 2 else [])


def test_a_group_begins_again_under_a_new_incarnation(written):
    where = written(group_record("G0", 7, 5, 0), group_record("G0", 0, 0, 0, incarnation=6))
    with OrderedConsumer(*where, discipline="group", group="a") as consumer:
        read(consumer, 2)
    assert consumer.disorders == []
    assert consumer.holes == []


def test_a_peer_reads_messages_handles_and_notices(written):
    where = written(
        multicast_record(3, 0, ("handles", b"@n1,@n2"), own=[("handles", b"@n1,@n2,@n3")]),
        multicast_record(3, 1, ("handles", b"")),
        multicast_record(5, 2, ("notice", b"n1"), sender=b"owner"),
        multicast_record(6, 3, ("handles", b""), ("handles-invalid", b"@n1")),
        multicast_record(4, 4),
    )
    with OrderedConsumer(*where, discipline="multicast", group="a") as consumer:
        (first,) = read(consumer, 1)
        assert (first.sender, first.stamp, first.destination) == (b"p0", 3, b"p1")
        assert (first.handles, first.handles_invalid) == (("n1", "n2"), ())
        assert first.headers == (("handles", b"@n1,@n2,@n3"),)
        assert consumer.handles("p1") == {"n1", "n2"}
        _, notice = read(consumer, 2)
        assert isinstance(notice, Notice)
        assert (notice.node, notice.sender, notice.stamp) == ("n1", b"owner", 5)
        assert consumer.handles("p1") == {"n2"}
        consumer.released("p1", "n2")
        assert consumer.handles("p1") == consumer.handles("p9") == set()
        invalid, late = read(consumer, 2)
        assert (invalid.handles, invalid.handles_invalid) == ((), ("n1",))
        assert late.handles is None
    assert [fault.what for fault in consumer.disorders] == ["timestamp 4 comes after 6"]


def test_a_store_says_where_it_is(written):
    """Exactly once: the process died after its store had (5, 1), before the commit to Kafka."""
    where = written(*(multicast_record(n, n) for n in range(4)))
    asked = []

    def resume(delivery):
        asked.append(delivery.key)
        return (5, 1)

    with OrderedConsumer(*where, discipline="multicast", group="a", resume=resume) as consumer:
        assert [delivery.sequence for delivery in read(consumer, 2)] == [2, 3]
    assert asked == [b"p1"]
    with OrderedConsumer(
        *where, discipline="multicast", group="b", resume=lambda _: (4, 9)
    ) as consumer:
        read(consumer, 4)
    assert consumer.holes == []
    written(multicast_record(9, 9))
    with OrderedConsumer(
        *where, discipline="multicast", group="c", resume=lambda _: (5, 6)
    ) as consumer:
        read(consumer, 1)
    assert consumer.holes == [Hole(b"p1", 5, 7, 9)]


def test_what_is_no_such_output_is_refused(written):
    where = written(multicast_record(1, 0))
    with (
        OrderedConsumer(*where, discipline="group", group="a") as consumer,
        pytest.raises(
            SequencerError, match="is not an output of a group pipeline: it has no header"
        ),
    ):
        consumer.poll(30)
    with pytest.raises(ConfigError, match="no discipline 'groups'"):
        OrderedConsumer(*where, discipline="groups", group="a")


def test_commit_has_nothing_to_note_before_the_first_record(written):
    where = written()
    with OrderedConsumer(*where, group="a") as consumer:
        assert consumer.poll(0.1) is None
        consumer.commit()


def test_senders_write_what_the_service_reads(broker, topic_prefix, written):
    kafka, topics = written(
        group_record("G0", 0, 0, 0),
        group_record("G0", 0, 1, 1),
        group_record("G0", 0, 0, 0, key=b"B"),
    )
    goes = {name: f"{topic_prefix}{name}" for name in ("market", "bus")}
    create_topics(broker.bootstrap, dict.fromkeys(goes.values(), 2))
    with OrderedConsumer(kafka, topics, discipline="group", group="a") as consumer:
        with GroupPublisher(kafka, goes["market"], "A", reads=consumer) as publisher:
            publisher.send("G1", b"before", [("own", b"x")], timestamp=1_700_000_000_000)
            _, last, other = read(consumer, 3)
            publisher.send("G1", "after")
        with MulticastSender(kafka, goes["bus"], b"p\xff", causes="read") as sender:
            sender.send(["p1", "@n1", b"\xfe"], None, handles=["n1", "@n2"], after=[last, last])
            sender.send("p1", b"", handles=[])
            sender.send(["p1"], b"alone")
    before, after = read_all(broker.bootstrap, goes["market"])
    assert (before.key, before.value, before.timestamp) == (b"A", b"before", 1_700_000_000_000)
    assert before.headers == [("own", b"x"), ("group", b"G1")]
    assert after.headers == [("group", b"G1"), ("causes", f"{last.place},{other.place}".encode())]
    named, empty, alone = read_all(broker.bootstrap, goes["bus"])
    assert (named.key, named.value) == (b"p\xff", None)
    assert named.headers == [
        ("to", b"p1,@n1,\xfe"),
        ("handles", b"@n1,@n2"),
        ("read", last.place.encode()),
    ]
    assert empty.headers == [("to", b"p1"), ("handles", b"")]
    assert alone.headers == [("to", b"p1")]


@pytest.mark.parametrize(
    ("to", "handles", "why"),
    [
        ([], None, "cannot have 0 destinations"),
        (["a"] * 10_001, None, "cannot have 10,001 destinations"),
        (["a", ""], None, "'' is not the name of a destination"),
        (["a,b"], None, "is not the name"),
        (["a" * 10_001], None, "too long for a destination"),
        (["a"], ["@"], "b'@' is not the name of a handle"),
        (["a"], ["n"] * 1_001, "cannot have 1,001 handles"),
    ],
)
def test_names_that_cannot_be_written_are_refused(to, handles, why):
    with pytest.raises(SequencerError, match=why):
        MulticastSender(UNREACHABLE, "t", "p").send(to, b"", handles=handles)


def test_a_message_needs_a_group():
    with pytest.raises(SequencerError, match="needs a group"):
        GroupPublisher(UNREACHABLE, "t", "s").send("", b"")
