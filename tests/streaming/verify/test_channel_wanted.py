"""The judge of what was asked for: nothing in what the operator writes, planted faults by name."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from sequencer.channels import Rules, Skip
from sequencer.custom_labels import CustomLabels
from sequencer.labels import CyclicLabels, LinearLabels
from streaming.verify.channel import judge
from tests.streaming.disciplines.channels.plans import plan
from tests.streaming.verify.channel_worlds import World, batches, history

LINEAR = LinearLabels(start=5, step=3)


def world(seed, labels=LINEAR, answers=0.9, count=240):
    rules = Rules(labels, gap=Skip(60), ask_ms=3, window=60)
    records = history(seed, labels, count=count, answers=answers)
    return World(plan(rules), batches(records, seed))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("labels", [LINEAR, CyclicLabels(256)])
def test_what_the_operator_writes_has_no_fault(labels, seed):
    it = world(seed, labels)
    verdict = judge(it.settings(), it.material())
    assert verdict.good, verdict.faults[:3]
    assert verdict.looked_at["wanted"] == it.totals.asked > 8
    assert verdict.looked_at["channels"] == it.totals.channels > 1, "as `status` counts them"
    assert it.totals.answered > 1


def test_custom_labels():
    labels = CustomLabels("0", lambda text: str(int(text) + 1))
    it = world(1, labels)
    assert judge(it.settings(), it.material()).good
    assert json.loads(it.topics["wanted"][0].value)["from"].isdigit()


def test_a_binary_key_is_base64():
    (one, *_) = [each for each in world(1).topics["wanted"] if each.key == b"\xff"]
    said = json.loads(one.value)
    assert [*said] == ["channel", "epoch", "from", "to", "try"]
    assert said["channel"] == {"base64": "/w=="}


def changed(record, **fields):
    return replace(record, value=json.dumps({**json.loads(record.value), **fields}).encode())


def later(m):
    """A run that was asked for more than once."""
    return next(n for n, each in enumerate(m.wanted) if json.loads(each.value)["try"] == 2)


def unreadable(m):
    m.wanted[0] = replace(m.wanted[0], value=b"?")


def ninth(m):
    m.wanted[later(m)] = changed(m.wanted[later(m)], **{"try": 9})


def again(m):
    m.wanted.append(m.wanted[later(m)])


def left_out(m):
    m.wanted[later(m)] = changed(m.wanted[later(m)], **{"try": 3})


def wider(m):
    said = json.loads(m.wanted[later(m)].value)
    m.wanted[later(m)] = changed(m.wanted[later(m)], **{"from": said["from"] - 3})


def nothing_above(m):
    m.wanted[0] = changed(m.wanted[0], to=LINEAR.at(500))


def not_missing(m):
    """A label that had come before what is above it."""
    labels = [int(r.header("label")) for r in m.inputs if r.key == b"a"]
    low, high = next((one, two) for one, two in pairwise(labels) if one < two)
    value = {"channel": "a", "epoch": 0, "from": low, "to": high, "try": 1}
    m.wanted.insert(0, replace(m.wanted[0], key=b"a", value=json.dumps(value).encode()))


def given_up(m):
    """It is asked for after its gap was announced."""
    event = next(e for e in m.events if e["event"] == "gap" and e["reason"] == "timeout")
    value = {"channel": event["channel"], "epoch": event["epoch"], "try": 1}
    value |= {"from": event["from"], "to": event["to"]}
    key = {"a": b"a", "b": b"b"}.get(str(event["channel"]), b"\xff")
    value = json.dumps(value).encode()
    m.wanted[:] = [replace(m.wanted[0], key=key, value=value, timestamp=10**6)]


def nobody_said_so(m):
    for at, each in enumerate(m.commands):
        said = json.loads(each.value)
        if said.pop("not_coming", None):
            m.commands[at] = replace(each, value=json.dumps({**said, "op": "skip"}).encode())


@pytest.mark.parametrize(
    ("plant", "name"),
    [
        (unreadable, "bad-wanted"),
        (ninth, "bad-wanted"),
        (again, "wrong-try"),
        (left_out, "wrong-try"),
        (wider, "wrong-try"),
        (nothing_above, "false-wanted"),
        (not_missing, "false-wanted"),
        (given_up, "false-wanted"),
        (nobody_said_so, "unasked-gap"),
    ],
)
def test_planted_faults_are_found(plant, name):
    it = world(2, answers=0.99)
    material = it.material()
    resets = [c for c in material.commands if json.loads(c.value).get("op") == "reset"]
    assert not resets, "a channel that may have begun again is not judged"
    plant(material)
    assert name in judge(it.settings(), material).counts
