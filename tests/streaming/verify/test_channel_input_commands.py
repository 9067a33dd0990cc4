"""Commands among records, as the operator takes them, and the judge of it."""

import json
from dataclasses import replace

import pytest

from sequencer.channels import Rules, Skip
from sequencer.labels import LinearLabels
from streaming.verify.channel import judge
from tests.seeds import seeds
from tests.streaming.disciplines.channels.plans import plan
from tests.streaming.verify.channel_worlds import World, batches, history

OPS = ("skip", "seed", "reset")


def world(records, seed=0, *, notices=True, ops=OPS, **how):
    rules = Rules(LinearLabels(), gap=Skip(15), held_max=6, window=30, notices=notices)
    return World(replace(plan(rules), input_commands=ops), batches(records, seed, **how))


@pytest.mark.parametrize("seed", seeds(6, 60))
def test_random_histories_have_no_fault(seed):
    it = world(history(seed, LinearLabels(), own=0.15), seed, notices=bool(seed % 2))
    verdict = judge(it.settings(), it.material())
    assert verdict.good, verdict.faults[:3]
    totals, inputs = it.totals, it.topics["in"]
    commands = [each for each in inputs if each.has_header("op")]
    assert (totals.commands, totals.seen) == (len(commands), len(inputs) - len(commands))
    ended = totals.delivered + sum(totals.rejected.values()) + totals.held
    assert totals.seen == ended
    answers = [json.loads(each.value) for each in it.topics["events"]]
    answers = [each for each in answers if each.get("topic") == "in"]
    assert len({each["offset"] for each in answers}) == len(answers) == len(commands)


@pytest.mark.parametrize("seed", seeds(3, 30))
def test_any_split_into_batches_gives_the_same(seed):
    def shown(*, whole):
        records = [r for r in history(seed, LinearLabels(), own=0.15) if not r["topic"]]
        rules = Rules(LinearLabels(), held_max=6, window=30, notices=True)
        it = World(replace(plan(rules), input_commands=OPS), batches(records, seed, whole=whole))
        out = [(r.key, r.value, r.header("notice"), r.header("sequence")) for r in it.topics["out"]]
        rejects = [(r.key, r.value, r.header("reject-reason")) for r in it.topics["rejects"]]
        return sorted(out, key=repr), sorted(rejects, key=repr)

    assert shown(whole=True) == shown(whole=False)


def record(offset, key, value, **headers):
    place = {"topic": 0, "partition": 0, "offset": offset, "timestamp": 100 + offset}
    headers = [{"key": name, "value": text} for name, text in headers.items()]
    return place | {"key": key, "value": value, "headers": headers}


STORY = [
    record(0, b"a", b"0", label=b"0"),
    record(1, b"a", b"2", label=b"2"),
    record(2, b"a", b'{"to": 2, "id": "s", "by": "me"}', op=b"skip"),
    record(3, b"b", b"0", label=b"0"),
    record(4, b"a", b'{"id": "r"}', op=b"reset"),
    record(5, b"a", b"again", label=b"0"),
    record(6, b"c", b'{"label": 7}', op=b"seed"),
    record(7, b"c", b"7", label=b"7"),
]


@pytest.mark.parametrize("whole", [True, False])
def test_a_command_stands_where_it_lies(whole):
    it = world(STORY, whole=whole)
    out = {}
    for each in it.topics["out"]:
        notice = each.header("notice")
        out.setdefault(each.key, []).append((notice or each.value).decode())
    assert out == {
        b"a": ["0", "gap", "2", "reset", "again"], b"b": ["0"], b"c": ["gap", "7"],
    }  # fmt: skip
    answers = [json.loads(each.value) for each in it.topics["events"]]
    answers = [each for each in answers if each["event"] == "command-done"]
    told = [(e["command"], e["op"], e["channel"], e["offset"], e["given_up"]) for e in answers]
    assert told == [("s", "skip", "a", 2, 1), ("r", "reset", "a", 4, 0), (None, "seed", "c", 6, 7)]
    assert (it.totals.seen, it.totals.commands, answers[0]["by"]) == (5, 3, "me")
    assert judge(it.settings(), it.material()).good


def test_a_command_may_name_its_channel_in_base64_whatever_its_bytes():
    named = b'{"channel": {"base64": "YQ=="}}'
    elsewhere = {"topic": 1, "headers": None}
    above = b'{"op": "reset", "channel": {"base64": "YQ=="}}'
    records = [
        record(0, b"a", b"0", label=b"0"),
        record(1, b"a", named, op=b"reset"),
        record(2, b"a", b"again", label=b"0"),
        record(0, None, above) | elsewhere,
        record(3, b"a", b"once more", label=b"0"),
    ]
    it = World(
        replace(plan(Rules(LinearLabels(), notices=True)), input_commands=OPS),
        [(100, records[:3]), (200, records[3:])],
    )
    order = [(each.header("notice") or each.value).decode() for each in it.topics["out"]]
    assert order == ["0", "reset", "again", "reset", "once more"]
    verdict = judge(it.settings(), it.material())
    assert verdict.good, verdict.faults


def test_what_cannot_be_carried_out_is_refused_and_nothing_else_changes():
    wrong = [
        (b"a", b"{", "unreadable"),
        (b"a", None, "unreadable"),
        (None, b"{}", "bad-channel"),
        (b"a", b'{"channel": "b"}', "bad-channel"),
        (b"a", b'{"blocked": "1 s"}', "bad-channel"),
        (b"a", b'{"label": 3}', "unknown-field"),
    ]
    records = [record(n, key, value, op=b"reset") for n, (key, value, _) in enumerate(wrong)]
    records.append(record(len(wrong), b"a", b"{}", op=b"seed"))
    it = world([record(99, b"a", b"0", label=b"0"), *records])
    answers = [json.loads(each.value) for each in it.topics["events"]]
    reasons = [reason for *_, reason in wrong] + ["bad-label"]
    assert [(e["event"], e["reason"]) for e in answers] == [
        ("command-refused", reason) for reason in reasons
    ]
    assert (it.totals.delivered, it.totals.commands) == (1, len(records))
    assert judge(it.settings(), it.material()).good


def test_who_gave_it_stands_also_in_the_answer_to_one_that_is_refused():
    said = b'{"channel": "b", "by": "ann", "why": "a slip"}'
    it = world([record(0, b"a", said, op=b"reset"), record(1, b"a", b'{"by": 1}', op=b"reset")])
    material = it.material()
    first, second = material.events
    assert (first["reason"], first["by"], first["why"]) == ("bad-channel", "ann", "a slip")
    assert (second["reason"], "by" in second) == ("bad-by", False)
    assert judge(it.settings(), material).good
    del first["why"]
    assert set(judge(it.settings(), material).counts) == {"wrong-answer"}


def test_what_is_not_allowed_is_a_message():
    it = world([record(0, b"a", b"{}", op=b"reset", label=b"0")], ops=("skip",))
    assert (it.totals.delivered, it.totals.commands) == (1, 0)


def test_a_reset_out_of_its_place_is_found():
    it = world(STORY, notices=False)
    material = it.material()
    assert judge(it.settings(), material).good
    message, reset = material.inputs[1], material.inputs[4]
    material.inputs[1], material.inputs[4] = replace(reset, offset=1), replace(message, offset=4)
    for event in material.events:
        if event.get("op") == "reset":
            event.update(offset=1, id="p:command:in:0:1")
    assert set(judge(it.settings(), material).counts) == {"misplaced-command"}


def test_a_channel_that_was_seeded_and_reset_waits_for_its_start_again():
    records = [
        record(0, b"a", b'{"label": 10}', op=b"seed"),
        record(1, b"a", b"{}", op=b"reset"),
        record(2, b"a", b"v", label=b"4"),
    ]
    rules = Rules(LinearLabels(), settle_ms=30)
    it = World(replace(plan(rules), input_commands=OPS), [(1000, records)])
    verdict = judge(it.settings(first_seen=True), it.material())
    assert (verdict.counts, verdict.looked_at["held"]) == ({}, 1), verdict.faults
