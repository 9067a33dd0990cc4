"""What became of a record, by topics in memory."""

import json
from dataclasses import replace
from itertools import chain

import pytest

from sequencer.channels import Rules, Skip
from sequencer.labels import LinearLabels
from streaming.errors import ConfigError
from streaming.verify.lives import Lives
from tests.seeds import seeds
from tests.streaming.disciplines.channels.plans import plan
from tests.streaming.verify.channel_worlds import World, batches, history
from tests.streaming.verify.lives_worlds import (
    Seeker,
    config_of,
    delivered,
    life,
    worked,
)
from tests.streaming.verify.worlds import Topics


@pytest.mark.parametrize("origin", [False, True])
def test_what_a_delivery_waited_for(origin):
    topics = worked(origin=origin)
    found, one = life(topics, "p.in", 0, 1, origin=origin)
    assert one["state"] == "delivered"
    assert [each["sequence"] for each in one["deliveries"]] == ["2"]
    assert one["waited"]["for"]["label"] == "1"
    assert (one["waited"]["since_ms"], one["waited"]["waited_ms"]) == (101, 1)
    assert one["waited"]["until"] == ("p.in/0@2" if origin else None)
    assert one["events"] == []
    assert {span["topic"] for span in found["looked_at"]} >= {"p.out"}
    _, first = life(topics, "p.in", 0, 0, origin=origin)
    assert first["waited"] is None


def test_who_gave_up_what_it_waited_for():
    _, one = life(worked(origin=True), "p.in", 0, 3, origin=True)
    assert [event["reason"] for event in one["events"]] == ["timeout"]


def test_gaps_of_other_epochs_and_incarnations_are_not_its_own():
    topics = worked(origin=True)
    for at, (epoch, incarnation) in enumerate([(1, 7), (0, 6), (0, 7)]):
        gap = {"event": "gap", "channel": "k", "epoch": epoch, "incarnation": incarnation}
        gap |= {"id": str(at), "from": 1, "to": 2}
        topics.put("p.events", 0, 901, b"k", json.dumps(gap).encode())
    _, one = life(topics, "p.in", 0, 3, origin=True)
    assert [event["id"] for event in one["events"]] == ["g", "2"]


class Written:
    """What the operator wrote of a random history, as `Seeker` reads it."""

    def __init__(self, world):
        self.records = {}
        for each in sorted(chain.from_iterable(world.topics.values()), key=lambda r: r.offset):
            self.records.setdefault((each.topic, each.partition), []).append(each)


def latest_before(out, delivery, came):
    """Where the delivery is that its record waited for; None where it waited for none."""
    mine = [each for each in out if each.key == delivery.key and each.offset < delivery.offset]
    later = [each for each in mine if came(each) > came(delivery)]
    return max(later, key=came).offset if later else None


@pytest.mark.parametrize("seed", seeds(3, 60))
def test_every_record_of_a_random_history(seed):
    """Held, delivered or rejected; what it waited for: the last to come of those before it."""
    rules = Rules(LinearLabels(), gap=Skip(15), held_max=6, window=30)
    world = World(replace(plan(rules), origin=True), batches(history(seed, LinearLabels()), seed))
    names = ("out", "rejects", "events", "commands")
    topics = dict(zip(("output", "rejects", "events", "commands"), names, strict=True))
    lives = Lives(config_of(input="in", origin=True, **topics), Seeker(Written(world)))
    origins = {each.header("origin").decode(): each for each in world.topics["out"]}
    rejected = {int(each.header("reject-offset")): each for each in world.topics["rejects"]}

    def came(delivery):
        return int(delivery.header("origin").rpartition(b"@")[2])

    waited = 0
    for record in world.topics["in"]:
        (one,) = lives.of(record.place)["pipelines"]
        delivery = origins.get(f"in/0@{record.offset}")
        assert [each["place"] for each in one["deliveries"]] == (
            [f"out/{delivery.partition}@{delivery.offset}"] if delivery else []
        )
        reject = rejected.get(record.offset)
        assert (one["reject"] or {}).get("place") == (
            f"rejects/{reject.partition}@{reject.offset}" if reject else None
        )
        state = "delivered" if delivery else "rejected" if reject else "unknown"
        assert one["state"] == state, "that it is held, marks would say"
        if delivery:
            there = Written(world).records["out", delivery.partition]
            place = latest_before(there, delivery, came)
            found = one["waited"] and one["waited"]["for"]["offset"]
            assert found == place
            waited += place is not None
    assert waited or seed > 2


@pytest.mark.parametrize(("origin", "found_by"), [(False, "content"), (True, "origin")])
def test_from_an_output_back(origin, found_by):
    topics = worked(origin=origin)
    found, one = life(topics, "p.out", 0, 2)
    assert (found["found_by"], found["input"]["place"]) == (found_by, "p.in/0@1")
    assert one["deliveries"][0]["place"] == "p.out/0@2"


@pytest.mark.parametrize(("topic", "place"), [("p.in", "p.in/0@0"), ("p.commands", None)])
def test_a_notice_leads_to_its_command_where_that_is_an_input(topic, place):
    topics = Topics(holes=False)
    join = b'{"group": "G", "member": "dee"}'
    topics.put("p.in", 0, 100, b"ann", join, [("op", b"join")])
    detail = json.dumps({"topic": topic, "partition": 0, "offset": 0}).encode()
    counts = [("sequence", b"0"), ("incarnation", b"7")]
    topics.put("p.out", 0, 100, b"dee", None, [("notice", b"joined"), ("detail", detail), *counts])
    end = [("from", b"ann"), ("destination", b"dee"), ("timestamp", b"3"), ("notice", b"n1")]
    topics.put("p.out", 0, 100, b"dee", None, [*end, *counts])
    pipeline = {"discipline": "group", "input_commands": ["join"], "notices": True}
    for offset, found in ((0, place), (1, None)):
        one = Lives(config_of(**pipeline), Seeker(topics)).of(("p.out", 0, offset))
        assert (one["found_by"], (one["input"] or {}).get("place")) == ("notice", found)


def test_a_reject_and_what_is_held():
    topics = worked(origin=True)
    found, one = life(topics, "p.rejects", 0, 0)
    assert found["input"]["place"] == "p.in/0@4"
    assert (one["state"], one["reject"]["reject-reason"]) == ("rejected", "duplicate")
    _, held = life(topics, "p.in", 0, 5)
    assert (held["state"], held["waited"]["last_delivery"]["label"]) == ("unknown", "4")
    for read, state in ((5, "waiting"), (6, "held")):
        mark = {"inputs": {"p.in": {"0": read}}}
        topics.put("p.progress", 0, 950 + read, b"0", json.dumps(mark).encode())
        assert life(topics, "p.in", 0, 5, progress=True)[1]["state"] == state


@pytest.mark.parametrize("origin", [False, True])
def test_nothing_waits_for_a_notice_or_a_record_without_a_label(origin):
    """Label 0, a notice of a later time, a later record that passes, and label 2."""
    topics = Topics(holes=False)
    labels = ([("label", b"0")], [("label", b"2")], [("label", b"9")], [])
    first, after, _, bare = [
        topics.put("p.in", 0, 100 + at, b"k", b"v%d" % at, own) for at, own in enumerate(labels)
    ]
    delivered(topics, first, 0, origin=origin)
    notice = [("notice", b"gap"), ("detail", b"{}"), ("sequence", b"1"), ("incarnation", b"7")]
    topics.put("p.out", 0, 900, b"k", None, notice)
    delivered(topics, bare, 2, origin=origin)
    settings = {"notices": True, "unlabelled": "pass", "origin": origin}
    _, held = life(topics, "p.in", 0, 2, **settings)
    assert held["waited"]["last_delivery"]["label"] == "0"
    delivered(topics, after, 3, origin=origin)
    _, one = life(topics, "p.in", 0, 1, **settings)
    assert (one["state"], one["waited"]) == ("delivered", None)


def test_nothing_waits_for_a_record_without_a_label_in_its_value():
    topics = Topics(holes=False)
    values = (b'{"n": 0}', b'{"n": 2}', b"{}")
    first, after, bare = [
        topics.put("p.in", 0, 100 + at, b"k", value, []) for at, value in enumerate(values)
    ]
    for number, each in enumerate((first, bare, after)):
        delivered(topics, each, number, origin=True)
    settings = {"label": {"json": "$.n"}, "unlabelled": "pass", "origin": True}
    _, one = life(topics, "p.in", 0, 1, **settings)
    assert (one["state"], one["waited"]) == ("delivered", None)


@pytest.mark.parametrize("discipline", ["channel", "group", "multicast"])
def test_a_command_in_the_input_is_no_message(discipline):
    op = {"channel": "reset", "group": "leave", "multicast": "release"}[discipline]
    settings = {"discipline": discipline, "input_commands": [op], "progress": True}
    topics = Topics(holes=False)
    topics.put("p.in", 0, 100, b"k", b"{}", [("op", op.encode())])
    topics.put("p.in", 0, 100, b"k", b"{}", [("op", op.encode()), ("op", b"else")])
    assert life(topics, "p.in", 0, 0, **settings)[1]["state"] == "waiting"
    topics.put("p.progress", 0, 950, b"0", json.dumps({"inputs": {"p.in": {"0": 2}}}).encode())
    answer = {"event": "command-done", "topic": "p.in", "partition": 0, "offset": 0}
    topics.put("p.events", 0, 902, b"", json.dumps(answer).encode())
    _, one = life(topics, "p.in", 0, 0, **settings)
    assert (one["state"], one["events"], one["waited"]) == ("command", [answer], None)
    assert life(topics, "p.in", 0, 1, **settings)[1]["state"] == "held"


@pytest.mark.parametrize(
    "settings",
    [
        {"duplicates": "drop"},
        {"rules": [{"channel": "k*", "duplicates": "drop"}]},
        {"duplicates": "drop", "channel": {"json": "$.c"}},
    ],
)
def test_where_duplicates_are_dropped_a_record_may_not_be_held(settings):
    topics = worked(origin=True)
    topics.put("p.progress", 0, 950, b"0", json.dumps({"inputs": {"p.in": {"0": 6}}}).encode())
    _, one = life(topics, "p.in", 0, 5, progress=True, **settings)
    assert one["state"] == "held or dropped"
    others = {"duplicates": "drop", "rules": [{"channel": "?", "duplicates": "reject"}]}
    assert life(topics, "p.in", 0, 5, progress=True, **others)[1]["state"] == "held"


@pytest.mark.parametrize("place", [("p.in", 0, 77), ("other", 0, 0)])
def test_what_is_not_there(place):
    with pytest.raises(ConfigError):
        life(worked(origin=True), *place)


@pytest.mark.parametrize("origin", [False, True])
def test_a_record_that_got_a_label(origin):
    topics = Topics(holes=False)
    sent = [topics.put("p.in", 0, 100 + at, b"k", b"v%d" % at, [("own", b"h")]) for at in range(3)]
    for at, record in enumerate(sent):
        added = {"label": b"%d" % at, "epoch": b"7", "sequence": b"%d" % at, "incarnation": b"7"}
        added |= {"origin": b"p.in/0@%d" % at} if origin else {}
        headers = [*record.headers, *added.items()]
        topics.put("p.out", 0, record.timestamp, record.key, record.value, headers)
    _, one = life(topics, "p.in", 0, 1, discipline="label", origin=origin)
    assert one["state"] == "delivered"
    assert [(each["place"], each["label"]) for each in one["deliveries"]] == [("p.out/0@1", "1")]
    back, _ = life(topics, "p.out", 0, 2, discipline="label", origin=origin)
    assert back["input"]["place"] == "p.in/0@2"


def test_a_reject_that_was_one_before_has_its_own_reason():
    """Somebody sent it again with the headers that made it a reject."""
    topics, place = Topics(holes=False), (b"p.in", b"0", b"0")
    own = [("label", b"0"), *zip(("reject-reason", "reject-topic"), (b"late", b"o"), strict=True)]
    own += [("reject-partition", b"0"), ("reject-offset", b"9"), ("reject-gap", b"theirs")]
    sent = topics.put("p.in", 0, 100, b"k", b"v", own)
    names = ("reject-reason", "reject-topic", "reject-partition", "reject-offset", "reject-after")
    added = [*zip(names, (b"duplicate", *place, b"7/0"), strict=True)]
    topics.put("p.rejects", 0, 100, b"k", b"v", [*sent.headers, *added])
    _, one = life(topics, "p.in", 0, 0)
    found = {name: text for name, text in one["reject"].items() if name.startswith("reject-")}
    assert found == {"reject-reason": "duplicate", "reject-after": "7/0"}


@pytest.mark.parametrize("origin", [False, True])
def test_a_label_in_a_header_named_like_one_of_ours(origin):
    topics, settings = Topics(holes=False), {"label": "header('sequence')", "unlabelled": "pass"}
    labels = ([("sequence", b"5")], [("sequence", b"3")], [])
    sent = [topics.put("p.in", 0, 100 + n, b"k", b"v", own) for n, own in enumerate(labels)]
    for sequence, at in enumerate((2, 1, 0)):
        delivered(topics, sent[at], sequence, origin=origin)
    _, one = life(topics, "p.in", 0, 0, origin=origin, **settings)
    assert [each["label"] for each in one["deliveries"]] == ["5"]
    assert one["waited"]["for"]["label"] == "3", "the one without a label came last, and passed"
