"""What became of a message that has copies for several readers, by topics in memory."""

import json

import pytest

from streaming.verify.lives import Lives
from tests.streaming.verify.lives_worlds import ADDED, NAMES, Seeker, config_of, life
from tests.streaming.verify.worlds import Topics


def published(discipline, *, origin, more=0):
    """Three messages of one sender, each to ann and cid in partition 0 and to bob in 2.

    Behind each of them come ``more`` of others; the partition 1 has only those.
    """
    topics, counts = Topics(holes=False), {}
    for at in range(3 + more):
        own = [NAMES[discipline]]
        sent = topics.put("p.in", 0, 100 + at, b"eve", b"v%d" % (at % 3), own)
        keys = [(b"ann", 0), (b"cid", 0), (b"bob", 2)] if at < 3 else [(b"dan", 0), (b"dan", 1)]
        for key, partition in keys:
            counts[key] = counts.get(key, -1) + 1
            added = [
                *ADDED[discipline](key, at),
                ("sequence", b"%d" % counts[key]),
                ("incarnation", b"7"),
                *([("origin", b"p.in/0@%d" % at)] if origin else []),
            ]
            topics.put("p.out", partition, 100 + at, key, sent.value, [*own, *added])
    return topics


@pytest.mark.parametrize("origin", [False, True])
@pytest.mark.parametrize("discipline", ["group", "multicast"])
def test_every_copy_of_a_message(discipline, origin):
    topics = published(discipline, origin=origin)
    settings = {"discipline": discipline, "origin": origin}
    found, one = life(topics, "p.in", 0, 1, **settings)
    assert (one["state"], one["reject"], one["waited"]) == ("delivered", None, None)
    copies = {(each["key"], each["place"], each["sequence"]) for each in one["deliveries"]}
    assert copies == {
        ("ann", "p.out/0@2", "1"),
        ("cid", "p.out/0@3", "1"),
        ("bob", "p.out/2@1", "1"),
    }
    number = "group-sequence" if discipline == "group" else "timestamp"
    assert {each[number] for each in one["deliveries"]} == {"1"}
    assert {(span["topic"], span["partition"]) for span in found["looked_at"]} >= {
        ("p.out", 0),
        ("p.out", 2),
    }
    back, _ = life(topics, "p.out", 2, 1, **settings)
    assert back["input"]["place"] == "p.in/0@1"
    assert back["found_by"] == ("origin" if origin else "content")


@pytest.mark.parametrize("discipline", ["group", "multicast"])
def test_by_origin_no_more_is_read_than_may_have_a_copy(discipline, monkeypatch):
    """Messages keep the order of their input, so behind a later one there is nothing."""
    monkeypatch.setattr("streaming.verify.copies.BEHIND_MAX", 10)
    topics, read = published(discipline, origin=True, more=100), []
    seeker = Seeker(topics)
    plain = seeker.oldest_first
    seeker.oldest_first = lambda span: (read.append(each) or each for each in plain(span))
    config = config_of(discipline=discipline, origin=True)
    (one,) = Lives(config, seeker).of(("p.in", 0, 1))["pipelines"]
    assert len(one["deliveries"]) == 3
    assert len(read) < 40
    own_way = "sequencing" if discipline == "group" else "order"
    settings = {own_way: "network" if discipline == "group" else "clock"}
    config = config_of(discipline=discipline, origin=True, **settings)
    read.clear()
    (one,) = Lives(config, seeker).of(("p.in", 0, 1))["pipelines"]
    assert len(one["deliveries"]) == 3
    assert len(read) > 100, "messages overtake each other there: all of it is read"


@pytest.mark.parametrize("discipline", ["group", "multicast"])
def test_equal_messages_of_two_senders_are_told_apart(discipline):
    topics = Topics(holes=False)
    sent = [topics.put("p.in", 0, 100, key, b"v", [NAMES[discipline]]) for key in (b"eve", b"may")]
    for at, record in enumerate(sent):
        name = "sender" if discipline == "group" else "from"
        added = dict(ADDED[discipline](b"ann", at)) | {name: record.key}
        headers = [NAMES[discipline], *added.items(), ("sequence", b"%d" % at)]
        topics.put("p.out", 0, 100, b"ann", b"v", [*headers, ("incarnation", b"7")])
    for at in (0, 1):
        _, one = life(topics, "p.in", 0, at, discipline=discipline)
        assert [each["place"] for each in one["deliveries"]] == [f"p.out/0@{at}"]
        found, _ = life(topics, "p.out", 0, at, discipline=discipline)
        assert found["input"]["place"] == f"p.in/0@{at}"


@pytest.mark.parametrize("discipline", ["group", "multicast"])
def test_messages_that_nobody_got(discipline):
    topics = published(discipline, origin=False)
    sent = topics.put("p.in", 0, 900, b"eve", b"lost", [NAMES[discipline]])
    said = {"reason": b"why-not", "topic": b"p.in", "partition": b"0", "offset": b"3"}
    added = [(f"reject-{name}", value) for name, value in said.items()]
    topics.put("p.rejects", 0, 900, b"eve", b"lost", [*sent.headers, *added])
    _, one = life(topics, "p.rejects", 0, 0, discipline=discipline)
    assert (one["state"], one["reject"]["reject-reason"]) == ("rejected", "why-not")
    topics.put("p.in", 0, 901, b"eve", b"lost, too", [NAMES[discipline]])
    event = {"event": "undelivered", "topic": "p.in", "partition": 0, "offset": 4}
    topics.put("p.events", 0, 902, b"n", json.dumps(event).encode())
    _, one = life(topics, "p.in", 0, 4, discipline=discipline)
    assert (one["state"], one["events"]) == ("undelivered", [event])
