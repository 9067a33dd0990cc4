"""The judge of channels and commands: nothing in right outputs, every planted fault by its name."""

import json
import random
from dataclasses import replace

import pytest

from sequencer.labels import CyclicLabels, LinearLabels
from streaming.arrow.key_text import key_to_json
from streaming.verify.channel import ChannelSettings, Material, judge
from streaming.verify.records import Record
from tests.sequencer.channels.model import NaiveChannels
from tests.streaming.verify.places import PARTITIONS, partition_of

KEYS = [b"a", b"b", b"c", b"\xff"]


def numbers(text):
    return int(text) if text.isdigit() else None


def story(seed):
    """Random input with commands between, and what the naive model makes of it, as topics."""
    rng = random.Random(seed)
    limits = {"window": 1000, "held_max": 1000, "full": "reject", "retire_after": 10**9}
    model = NaiveChannels(cycle=None, to_place=numbers, gap_after=None, **limits)
    inputs, commands, events = [], [], []
    begun = dict.fromkeys(KEYS, 0)
    for n in range(300):
        key = rng.choice(KEYS)
        label = b"%d" % max(0, (n - begun[key]) // 4 + rng.randrange(-3, 4))
        inputs.append(Record("in", 0, n, n, key, b"v%d" % n, (("label", label),)))
        model.take(n, (n, key, label, None, False))
        if n % 20 == 10:
            said = command(rng, rng.choice([*KEYS, None]))
            events.append(carried_out(model, said, len(commands), n))
            commands.append(
                Record("commands", 0, len(commands), n, None, json.dumps(said).encode(), ())
            )
            if said["op"] == "reset" and "dry_run" not in said:
                for each in KEYS:
                    if said.get("channel", key_to_json(each)) == key_to_json(each):
                        begun[each] = n
    lives = model.lives_of_gaps
    events += [
        gap(n, born, *each) for n, (born, each) in enumerate(zip(lives, model.gaps, strict=True))
    ]
    outputs, ends = [], [0] * PARTITIONS
    for key, sequence, row, born in model.out:
        place = partition_of(key)
        added = (("sequence", b"%d" % sequence), ("incarnation", b"%d" % born))
        headers = inputs[row].headers + added
        where = {"topic": "out", "partition": place, "offset": ends[place]}
        outputs.append(replace(inputs[row], headers=headers, **where))
        ends[place] += 1
    # A gap is known by its key, incarnation, epoch and first label.
    ids = {
        (each[0], born, each[1], each[2]): f"g{n}"
        for n, (born, each) in enumerate(zip(lives, model.gaps, strict=True))
    }
    rejects = [
        reject(inputs[row], at, reason, model.places[row], ids)
        for at, (row, reason) in enumerate(model.rejects)
    ]
    settings = ChannelSettings(
        "p", LinearLabels(), 1000, output_partitions=PARTITIONS, held_max=1000
    )
    return settings, Material(inputs, outputs, rejects, events, commands)


def command(rng, key):
    said = {"op": rng.choice(["skip", "skip", "seed", "reset"])}
    said |= {"blocked": "0 s"} if key is None else {"channel": key_to_json(key)}
    if said["op"] == "seed":
        said["label"] = rng.randrange(80)
    return said | ({"dry_run": True} if rng.random() < 0.2 else {})


def carried_out(model, said, offset, now):
    key = next((each for each in KEYS if key_to_json(each) == said.get("channel")), None)
    label = b"%d" % said["label"] if "label" in said else None
    dry = "dry_run" in said
    done = model.command(now, said["op"], key, label=label, blocked=0, dry=dry)
    where = {"topic": "commands", "partition": 0, "offset": offset}
    answer = {"event": "command-done", "id": f"c{offset}", "command": None, **where}
    if done[2] is not None:
        return {**answer, "event": "command-refused", "reason": done[2]}
    return {**answer, "channels": done[0], "given_up": done[1]}


def gap(number, born, key, epoch, first, stop, waited, why):
    told = {
        "incarnation": born,
        "channel": key_to_json(key),
        "epoch": epoch,
        "from": first,
        "to": stop,
    }
    told |= {"count": stop - first, "waited_ms": waited, "reason": why}
    return {"event": "gap", "id": f"g{number}", **told}


def reject(record, offset, reason, place, ids):
    behind, its_gap = place
    where = {"reason": reason, "topic": "in", "partition": 0, "offset": record.offset}
    where |= {} if behind is None else {"after": "/".join(map(str, behind))}
    where |= {} if its_gap is None else {"gap": ids[its_gap]}
    added = tuple((f"reject-{name}", str(value).encode()) for name, value in where.items())
    return replace(record, topic="rejects", offset=offset, headers=record.headers + added)


@pytest.fixture(params=range(6))
def world(request):
    return story(request.param)


def test_right_outputs_have_no_fault(world):
    settings, material = world
    verdict = judge(settings, material)
    assert verdict.good, verdict.faults[:3]
    assert verdict.looked_at["commands"] == len(material.commands) > 10


def done(m, *ops, dry=False):
    """The first answer to a command of these kinds that acted, and the command's place."""
    for at, event in enumerate(m.events):
        if event["event"] == "command-done" and event["channels"]:
            said = json.loads(m.commands[event["offset"]].value)
            if said["op"] in ops and ("dry_run" in said) == dry:
                return at, event["offset"]
    pytest.skip("no such command in this story")


def no_answer(m):
    del m.events[done(m, "skip", "seed", "reset")[0]]


def two_answers(m):
    at, _ = done(m, "skip", "seed", "reset")
    m.events.append({**m.events[at], "id": "other"})


def answer_to_nothing(m):
    at, _ = done(m, "skip", "seed", "reset")
    m.events.append({**m.events[at], "id": "other", "offset": 999})


def one_label_more(m):
    at, _ = done(m, "skip", "seed")
    m.events[at] = {**m.events[at], "given_up": m.events[at]["given_up"] + 1}


def hidden_gap(m):
    at = next(n for n, e in enumerate(m.events) if e["event"] == "gap")
    del m.events[at]


def nobody_asked(m):
    """All commands that gave labels up are taken away with their answers."""
    keep = [c for c in m.commands if json.loads(c.value)["op"] == "reset"]
    m.commands[:] = keep
    there = {c.offset for c in keep}
    m.events[:] = [e for e in m.events if e["event"] == "gap" or e["offset"] in there]


def a_dry_run_acted(m):
    """Whoever gave labels up had only asked what would be done."""
    for at, each in enumerate(m.commands):
        said = json.loads(each.value) | {"dry_run": True}
        m.commands[at] = replace(each, value=json.dumps(said).encode())


def nobody_reset(m):
    for at, each in enumerate(m.commands):
        said = json.loads(each.value)
        if said["op"] == "reset":
            m.commands[at] = replace(each, value=json.dumps(said | {"op": "skip"}).encode())


@pytest.mark.parametrize(
    ("plant", "name"),
    [
        (no_answer, "unanswered"),
        (two_answers, "answered-twice"),
        (answer_to_nothing, "invented-answer"),
        (one_label_more, "wrong-count"),
        (hidden_gap, "unannounced-gap"),
        (hidden_gap, "wrong-count"),
        (nobody_asked, "unasked-gap"),
        (a_dry_run_acted, "unasked-gap"),
        (a_dry_run_acted, "unexplained-restart"),
        (nobody_reset, "unexplained-restart"),
        (nobody_reset, "wrong-reason"),
    ],
)
def test_planted_faults_are_found(plant, name):
    settings, material = story(4)
    plant(material)
    assert name in judge(settings, material).counts


def test_what_is_not_answered_yet_may_have_been_done():
    """Effects may be seen before the answer; unless the command is due, that is no fault."""
    settings, material = story(4)
    material.events[:] = [event for event in material.events if event["event"] == "gap"]
    assert judge(settings, material, due={}).good
    assert set(judge(settings, material).counts) == {"unanswered"}


def test_a_cyclic_channel_may_begin_anywhere_in_its_cycle():
    """Seeded beyond half the cycle: that is ahead, as nothing of it is past."""
    said = b'{"op": "seed", "channel": "a", "label": 13}'
    place = partition_of(b"a")
    inputs = [
        Record("in", 0, n, 1, b"a", b"v%d" % n, (("label", b"%d" % label),))
        for n, label in enumerate((13, 14, 15, 0))
    ]
    outputs = [
        replace(
            each,
            topic="out",
            partition=place,
            headers=(*each.headers, ("sequence", b"%d" % n), ("incarnation", b"9")),
        )
        for n, each in enumerate(inputs)
    ]
    where = {"topic": "commands", "partition": 0, "offset": 0}
    events = [
        gap(0, 9, b"a", 0, 0, 13, 0, "operator"),
        {
            "event": "command-done",
            "id": "c",
            "command": None,
            **where,
            "channels": 1,
            "given_up": 13,
        },
    ]
    commands = [Record("commands", 0, 0, 1, None, said, ())]
    settings = ChannelSettings("p", CyclicLabels(16), 5, output_partitions=PARTITIONS)
    verdict = judge(settings, Material(inputs, outputs, [], events, commands))
    assert verdict.good, verdict.faults
