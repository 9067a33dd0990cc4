"""What is no longer what was read: topics made again, logs cut back, records deleted."""

import uuid
from types import SimpleNamespace

import pytest
from confluent_kafka import TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from streaming.errors import InputLost, KafkaUnavailable
from streaming.source import fetching, watching
from streaming.source.fetching import Fetching
from streaming.source.losses import Acceptance, Loss, lost
from streaming.source.pacing import Pace
from streaming.source.planned import lost_of_planned
from streaming.source.positions import begin_of, logs_in, offsets_in
from streaming.source.ranges import Range
from streaming.wire import bounds
from streaming.wire.topology import Topology, id_of, id_text
from tests.kafka_helpers import SECONDS_MAX, create_topics, delete_topic
from tests.streaming.source.readings import as_logged, send, values


def make_again(broker, topic, partitions=3):
    delete_topic(broker.bootstrap, topic)
    create_topics(broker.bootstrap, {topic: partitions})


def delete_before(broker, topic, offset):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        future.result(SECONDS_MAX)


@pytest.mark.parametrize(("partitions", "count"), [(3, 10), (1, 15), (5, 3)])
def test_a_topic_made_again(broker, topic, reading, partitions, count):
    """With more records than before, or as many, or fewer; also while the service runs."""
    send(broker, topic, b"old", 10)
    source = reading()
    start = as_logged(source.latest(source.first()))
    assert source.latest(start) == start
    make_again(broker, topic, partitions)
    new = send(broker, topic, b"new", count)
    for each in (source, reading()):
        with pytest.raises(InputLost, match=f"{topic} was deleted and made again"):
            each.latest(start)

    said = []
    accepting = reading(Acceptance({topic}, said.append))
    end = as_logged(accepting.latest(start))
    assert values(accepting, start, end) == new
    assert values(reading(), start, end) == new, "the batch may be repeated by another driver"
    plan = SimpleNamespace(producer=accepting.inputs.properties)
    assert not lost_of_planned(plan, start, end), "nor is it lost for who accepts again"
    assert "made again" in said[0]
    more = send(broker, topic, b"more", 4)
    after = as_logged(accepting.latest(end))
    assert values(accepting, end, after) == more
    make_again(broker, topic)
    with pytest.raises(InputLost, match="made again"):
        accepting.latest(after)


def test_a_topic_made_again_whose_leaders_had_moved(broker, topic, reading, monkeypatch):
    """The new topic counts its leaders from 0: they are not older ones of the topic that was read."""
    monkeypatch.setattr(fetching, "ANOTHER_SECONDS", 0.2)
    send(broker, topic, b"old", 10)
    source = reading()
    ends = [as_logged(source.first())]
    ends.append(as_logged(source.latest(ends[0])))
    for end in ends:
        logs = logs_in(end)[topic].epochs
        end[f"#{topic}"]["epochs"] = dict.fromkeys(logs, 5)
    make_again(broker, topic)
    with pytest.raises(InputLost, match=f"{topic} was deleted and made again"):
        reading().latest(ends[1])
    with pytest.raises(InputLost, match="made again.*cannot be repeated"):
        values(reading(), *ends)


def test_a_planned_batch_of_a_topic_made_again(broker, topic, reading, monkeypatch):
    """Its records are gone: those of the new topic are not theirs."""
    monkeypatch.setattr(fetching, "ANOTHER_SECONDS", 0.2)
    old = send(broker, topic, b"old", 10)
    source = reading()
    start = as_logged(source.first())
    end = as_logged(source.latest(start))
    assert values(source, start, end) == old
    make_again(broker, topic)
    send(broker, topic, b"new", 15)
    with pytest.raises(InputLost, match="made again.*--accept-lost-input"):
        values(source, start, end)
    with pytest.raises(InputLost, match="made again.*cannot be repeated"):
        values(reading(), start, end)


def test_deleted_records(broker, topic, reading):
    send(broker, topic, b"v", 10)
    source = reading(records_max=4)
    start = as_logged(source.first())
    end = as_logged(source.latest(start))
    assert len(values(source, start, end)) == 4
    delete_before(broker, topic, 6)
    with pytest.raises(InputLost, match="partition 0: offsets 4 to 5 were deleted"):
        source.latest(end)
    with pytest.raises(InputLost, match="partition 0: offsets 0 to 5 were deleted.*cannot be"):
        values(reading(), start, end)
    again = reading()
    first = as_logged(again.first())
    assert offsets_in(first)[topic]["0"] == 6
    with pytest.raises(InputLost, match="partition 0: offsets 0 to 5 were deleted.*cannot be"):
        values(again, first, end)
    accepting = reading(Acceptance({topic}))
    after = as_logged(accepting.latest(end))
    assert values(accepting, end, after) == [b"v6", b"v7", b"v8", b"v9"]
    assert offsets_in(after)[topic]["0"] == 10
    assert begin_of(end, after)[topic]["0"] == 6
    assert begin_of(after, after)[topic]["0"] == 10


@pytest.mark.parametrize("lose", [lambda *where: delete_before(*where, 1_000), make_again])
def test_what_was_done_may_be_gone(broker, topic, reading, monkeypatch, lose):
    """Spark asks for the last batch at a start, and does not read it."""
    monkeypatch.setattr(fetching, "ANOTHER_SECONDS", 0.2)
    send(broker, topic, b"v", 1_000)
    source = reading(keys=("shard",))
    start = as_logged(source.first())
    end = as_logged(source.latest(start))
    lose(broker, topic)
    again = reading(keys=("shard",))
    again.rows(start, end)
    if lose is not make_again:
        assert again.latest(end) is end


@pytest.mark.parametrize("partitions", [1, 3])
def test_what_is_lost_is_not_done(broker, topic, reading, partitions):
    """A new topic may end before the offsets that were read of the old one."""
    send(broker, topic, b"old", 10)
    start = as_logged(reading().latest(reading().first()))
    make_again(broker, topic, partitions)
    send(broker, topic, b"new", 3)
    pace = Pace()
    with pytest.raises(InputLost, match="made again"):
        reading(pace=pace).latest(start)
    assert not pace.done
    accepting = reading(Acceptance({topic}), pace=pace)
    end = as_logged(accepting.latest(start))
    assert not pace.done
    assert accepting.latest(end) is end
    assert pace.done[topic]["0"] == 3


def test_a_broker_that_is_cut_off_from_the_others(broker, topic, reading, monkeypatch):
    """It takes itself for the leader still; what was read since came from another one."""
    monkeypatch.setattr(bounds, "SECONDS_MAX", 0.3)
    send(broker, topic, b"v", 10)
    source = reading()
    start = as_logged(source.latest(source.first()))
    start[topic]["0"] = 15
    start["#" + topic]["epochs"]["0"] += 1
    for each in (source, reading()):
        with pytest.raises(KafkaUnavailable, match="partition 0 has no leader of epoch 1 or later"):
            each.latest(start)


def test_a_planned_batch_is_not_read_from_an_older_leader(brokers):
    brokers.topology.update(answer(uuid.UUID(int=1), [(1, 6)]))
    of_topic = brokers.topology.ids["t"]
    Fetching(brokers, [Range("t", 0, 0, 3, 10, of_topic, 6)])
    assert brokers.topology.leaders == {("t", 0): 1}
    Fetching(brokers, [Range("t", 0, 0, 3, 10, of_topic, 7)])
    assert not brokers.topology.leaders
    brokers.topology.update(answer(uuid.UUID(int=1), [(1, 6)]))
    assert not brokers.topology.leaders
    brokers.topology.update(answer(uuid.UUID(int=1), [(2, 7)]))
    assert brokers.topology.leaders == {("t", 0): 2}


def test_loss_is_said_in_words():
    losses = [Loss("t", n, "deleted", 3, 9) for n in range(5)]
    text = str(lost(losses))
    assert "t, partition 0: offsets 3 to 8 were deleted" in text
    assert "and 2 more" in text
    assert "--accept-lost-input" in text
    assert "Nothing was written for what is lost" in text, "no batch has it yet"


def test_ids_are_those_that_kafka_shows(broker, topic, brokers):
    brokers.find_leaders([topic])
    text = brokers.topology.ids[topic]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (described,) = admin.describe_topics(TopicCollection([topic])).values()
    shown = str(described.result(SECONDS_MAX).topic_id)  # librdkafka has the other alphabet
    assert text == shown.translate(str.maketrans("+/", "-_"))
    assert id_text(id_of(text)) == text
    assert id_text(id_of("")) == ""


def answer(topic, partitions, *, error=0):
    """What a broker says of a topic; of each partition its leader and epoch."""
    parts = [
        SimpleNamespace(partition_index=at, leader_id=leader, leader_epoch=epoch)
        for at, (leader, epoch) in enumerate(partitions)
    ]
    return [SimpleNamespace(name="t", topic_id=topic, error_code=error, partitions=parts)]


def test_who_leads():
    known, one, other = Topology(), uuid.uuid4(), uuid.uuid4()
    known.update(answer(one, [(1, 3), (2, 4)]))
    assert known.leaders == {("t", 0): 1, ("t", 1): 2}
    known.update(answer(one, [(5, 2), (6, 5)]))
    assert known.leaders == {("t", 0): 1, ("t", 1): 6}, "a broker that is behind"
    known.update(answer(one, [(-1, 3), (6, 5)]))
    assert known.leaders == {("t", 1): 6}
    known.update(answer(None, [], error=3))
    assert known.epochs == {("t", 0): 3, ("t", 1): 5}
    known.update(answer(other, [(7, 0)]))
    assert known.leaders == {("t", 0): 7}
    assert known.epochs == {("t", 0): 0}
    assert known.ids == {"t": id_text(other)}
    known.require("t", id_text(one), {0: 9})
    known.require("t", id_text(other), {0: 0})
    assert known.leaders == {("t", 0): 7}, "another topic's epochs"
    known.require("t", id_text(other), {0: 1})
    assert not known.leaders
    before = known.version
    known.clear()
    assert not known.leaders
    assert known.version > before


class Asked:
    """A topic's bounds that stay as they are; notes what was asked."""

    def __init__(self):
        self.places, self.metadata = [], 0

    def __call__(self, which):
        self.places.append(which)
        return {"t": {0: bounds.Bound(5, 1)}}

    def refresh(self):
        self.metadata += 1
        return False


def test_a_look_that_finds_nothing_new_asks_for_ends_alone():
    """Who leads 1,500 partitions takes a client 15 ms of a core."""
    brokers = SimpleNamespace(topology=Topology())
    brokers.topology.update(answer(uuid.UUID(int=1), [(1, 1)]))
    watch = watching.TopicWatch(brokers, ["t"])
    watch._bounds = asked = Asked()
    start, losses = watch.look({})
    assert not losses
    for _ in range(20):
        assert watch.look(start) is None
    assert asked.metadata == 1
    assert asked.places.count(bounds.EARLIEST) == 1


def test_where_the_topics_end_is_known_also_where_a_batch_is_limited(broker, topic, reading):
    send(broker, topic, b"a", 10)
    source = reading(records_max=4)
    assert source.newest() is None
    start = source.first()
    end = source.latest(start)
    assert sum(offsets_in(end)[topic].values()) == 4
    assert sum(offsets_in(source.newest())[topic].values()) == 10
    send(broker, topic, b"b", 2)
    source.latest(end)
    assert sum(offsets_in(source.newest())[topic].values()) == 12
