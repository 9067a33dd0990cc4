"""Commands on their way through packs and shards: who gets them, what is answered."""

import json

import numpy as np
import pyarrow as pa
import pytest

from sequencer.channels import ChannelCommand, Op, Rules
from sequencer.custom_labels import CustomLabels
from sequencer.labels import LinearLabels
from streaming.arrow import output
from streaming.arrow.key_text import key_from_json, key_to_json
from streaming.arrow.pack import pack_by_shard
from streaming.disciplines.channels.codec import decode_shard, encode_shard
from streaming.disciplines.channels.commands import read_request
from streaming.disciplines.channels.core import step_shard
from streaming.disciplines.channels.records import (
    arrival_schema,
    labelled,
    record_schema,
    with_commands,
)
from streaming.disciplines.state_keys import shard_of_name
from streaming.disciplines.state_row import StateRow
from tests.streaming.disciplines.channels.plans import plan

SHARDS = 5
KEYS = [b"k%d" % n for n in range(20)] + [b"", b"\xff\x00", b"x" * 100]


ABSENT = {"channel": "k0", "epoch": 0, "from": 0, "to": 3, "not_coming": True}


class Shards:
    """All shards of a pipeline, fed batch by batch; events and answers as they were told."""

    def __init__(self, labels=None):
        self.plan = plan(Rules(labels or LinearLabels()))
        self.rows = [StateRow()] * SHARDS
        self.offset = 0
        self.events, self.parts, self.rejects, self.totals = [], [], [], []

    def batch(self, now_ms, records=(), commands=()):
        """Records are (key, label) or (key, label, epoch); commands JSON objects or bytes."""
        given = [self._row(0, key, label) for key, label in records]
        given += [self._row(1, None, None, each) for each in commands]
        table = pa.Table.from_pylist(given, schema=record_schema(self.plan))
        shard = [shard_of_name(row["key"] or b"", SHARDS) for row in given]
        rows = labelled(table, arrival_schema(self.plan), "label")
        placed = with_commands(rows, np.array(shard, np.int32), 1, SHARDS)
        batch = pack_by_shard(*placed, list(range(SHARDS))).to_pydict()
        self.totals = []
        parts = []
        for shard, pack in zip(batch["shard"], batch["rows"], strict=True):
            state = decode_shard(self.rows[shard], record_schema(self.plan))
            after, writes = step_shard(state, [pack], now_ms, self.plan)
            parts += after.totals.parts
            self.rows[shard] = encode_shard(after)
            for topic, written in writes:
                if topic == "events":
                    self.events += [json.loads(value) for value in written["value"].to_pylist()]
                if topic == "rejects":
                    self.rejects += written["reject-reason"].to_pylist()
        told = output.together(parts)
        self.events += [event for _, event in told]
        return [event for event in self.events if "command" in event]

    def _row(self, topic, key, label, value=None):
        self.offset += 1
        headers = [] if label is None else [{"key": "label", "value": str(label).encode()}]
        value = value if isinstance(value, bytes | None) else json.dumps(value).encode()
        where = {"topic": topic, "partition": 0, "offset": self.offset}
        return {**where, "timestamp": 0, "key": key, "value": value, "headers": headers}


def test_a_command_is_answered_once_by_whom_it_concerns():
    shards = Shards()
    shards.batch(1000, [(key, 1) for key in KEYS])
    commands = [
        {"op": "skip", "channel": key_to_json(key), "id": f"c{n}"} for n, key in enumerate(KEYS)
    ]
    told = shards.batch(1500, [], commands)
    assert [
        (e["event"], e["command"], e["channels"], e["given_up"])
        for e in sorted(told, key=lambda e: e["offset"])
    ] == [("command-done", f"c{n}", 1, 1) for n in range(len(KEYS))]
    gaps = [e for e in shards.events if e["event"] == "gap"]
    assert {key_from_json(e["channel"]) for e in gaps} == set(KEYS)
    assert {(e["from"], e["to"], e["reason"], e["waited_ms"]) for e in gaps} == {
        (0, 1, "operator", 500)
    }


def test_all_that_wait_are_answered_with_the_sum_over_shards():
    shards = Shards()
    shards.batch(1000, [(key, 3) for key in KEYS])
    shards.batch(2000, [(b"young", 3)])
    dry = {"op": "skip", "blocked": "1 s", "dry_run": True, "by": "me", "why": "to see"}
    (told,) = shards.batch(2500, [], [dry])
    assert (told["event"], told["channels"], told["given_up"]) == (
        "command-done",
        len(KEYS),
        3 * len(KEYS),
    )
    assert (told["by"], told["why"], told["dry_run"]) == ("me", "to see", True)
    assert not [e for e in shards.events if e["event"] == "gap"]
    *_, told = shards.batch(2500, [], [{"op": "skip", "blocked": "1 s", "id": "go"}])
    assert (told["command"], told["channels"], told["given_up"]) == ("go", len(KEYS), 3 * len(KEYS))
    assert sum(e["event"] == "gap" for e in shards.events) == len(KEYS)
    *_, told = shards.batch(2600, [], [{"op": "skip", "blocked": "1 s"}])
    assert (told["channels"], told["given_up"]) == (0, 0)


def test_commands_come_before_the_records_and_in_their_order():
    shards = Shards()
    shards.batch(1000, [(b"a", 2)])
    commands = [
        {"op": "reset", "channel": "a"},
        {"op": "seed", "channel": "a", "label": 7},
        {"op": "seed", "channel": "a", "label": 7},
    ]
    told = shards.batch(2000, [(b"a", 7), (b"a", 6)], commands)
    assert [(e["event"], e.get("reason"), e.get("given_up")) for e in told] == [
        ("command-done", None, 0),
        ("command-done", None, 7),
        ("command-refused", "not-ahead", None),
    ]
    assert sorted(shards.rejects) == ["late", "reset"]
    (gap,) = [e for e in shards.events if e["event"] == "gap"]
    assert (gap["from"], gap["to"], gap["incarnation"]) == (0, 7, 2000)


def test_labels_of_custom_sequences_are_text():
    shards = Shards(CustomLabels("L0", lambda text: f"L{int(text[1:]) + 1}"))
    shards.batch(1000, [(b"a", "L5")])
    told = shards.batch(1500, [], [{"op": "skip", "channel": "a", "to": "L4"}])
    assert told[0]["given_up"] == 4
    (gap,) = [e for e in shards.events if e["event"] == "gap"]
    assert (gap["from"], gap["to"]) == ("L0", "L4")
    *_, told = shards.batch(1500, [], [{"op": "skip", "channel": "a", "to": "M4"}])
    assert (told["event"], told["reason"]) == ("command-refused", "bad-label")


def test_a_refusal_names_the_label_that_it_is_about():
    shards = Shards()
    shards.batch(1000, [(b"k0", 5)])
    far = 2**62 + 5
    wrong = [{**ABSENT, "from": far}, {**ABSENT, "to": far + 1}]
    told = shards.batch(1500, [], [*wrong, {"op": "skip", "channel": "k0", "to": far + 2}])
    said = "is not a label of the channel, or too far away"
    assert [(each["reason"], each["detail"]) for each in told] == [
        ("bad-label", f"{far + n} {said}") for n in range(3)
    ]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "unreadable"),
        (b"[]", "unreadable"),
        (b"{", "unreadable"),
        ({"channel": "a"}, "unknown-op"),
        ({"op": "add", "channel": "a"}, "unknown-op"),
        ({"op": "skip"}, "bad-channel"),
        ({"op": "skip", "channel": "a", "blocked": "1 s"}, "bad-channel"),
        ({"op": "skip", "channel": 7}, "bad-channel"),
        ({"op": "skip", "channel": None}, "bad-channel"),
        ({"op": "skip", "channel": {"base64": "?"}}, "bad-channel"),
        ({"op": "skip", "channel": "\ud800"}, "bad-channel"),
        ({"op": "skip", "blocked": "soon"}, "bad-blocked"),
        ({"op": "skip", "channel": "a", "to": 1.0}, "bad-label"),
        ({"op": "skip", "channel": "a", "to": True}, "bad-label"),
        ({"op": "skip", "channel": "a", "to": -1}, "bad-label"),
        ({"op": "skip", "channel": "a", "label": 1}, "unknown-field"),
        ({"op": "skip", "channel": "a", "dry-run": True}, "unknown-field"),
        ({"op": "skip", "channel": "a", "dry_run": "no"}, "bad-dry-run"),
        ({"op": "skip", "channel": "a", "why": 1}, "bad-why"),
        ({"op": "skip", "channel": "a", "by": "x" * 10_001}, "bad-by"),
        ({"op": "seed", "channel": "a"}, "bad-label"),
        ({"op": "seed", "channel": "a", "label": 0}, "not-ahead"),
        ({"op": "skip", "blocked": "0 s", "to": "x"}, "bad-label"),
        ({"op": "not-coming", "channel": "a"}, "unknown-op"),
        ({"op": "skip", **ABSENT}, "unknown-field"),
        ({**ABSENT, "dry_run": True}, "unknown-field"),
        ({**ABSENT, "not_coming": False}, "bad-not-coming"),
        ({**ABSENT, "channel": 7}, "bad-channel"),
        ({key: ABSENT[key] for key in ABSENT if key != "channel"}, "bad-channel"),
        ({**ABSENT, "epoch": True}, "bad-epoch"),
        ({**ABSENT, "epoch": 2**63}, "bad-epoch"),
        ({**ABSENT, "epoch": 1}, "other-epoch"),
        ({**ABSENT, "from": None}, "bad-label"),
        ({**ABSENT, "to": "x"}, "bad-label"),
    ],
)
def test_what_cannot_be_done_is_refused_once(value, reason):
    shards = Shards()
    shards.batch(1000, [(key, 3) for key in KEYS])
    (told,) = shards.batch(1001, [], [value])
    assert (told["event"], told["reason"]) == ("command-refused", reason)
    assert told["detail"]


def test_labels_that_will_not_come():
    shards = Shards()
    shards.batch(1000, [(key, 3) for key in KEYS])
    absent = [{**ABSENT, "by": "me", "why": "rolled back", "id": "x"}, ABSENT]
    absent.append({**ABSENT, "channel": {"base64": "/wA="}})
    told = shards.batch(1500, [], absent)
    assert sorted(e["given_up"] for e in told) == [0, 3, 3]
    first = next(e for e in told if e["command"] == "x")
    names = ("op", "channel", "epoch", "from", "to", "by", "why", "channels", "given_up")
    assert {each: first[each] for each in names} == {
        **dict(zip(names, ("not-coming", "k0", 0, 0, 3, "me", "rolled back", 1, 3), strict=True))
    }
    gaps = [e for e in shards.events if e["event"] == "gap"]
    assert [(e["from"], e["to"], e["reason"], e["waited_ms"]) for e in gaps] == [
        (0, 3, "not-coming", 500)
    ] * 2
    shards.batch(1600, [(b"k0", 1)])
    assert shards.rejects == ["late"]


def test_commands_are_read_as_they_are_written():
    found = read_request(b'{"op":"seed","channel":{"base64":"/w=="},"label":"7","id":"x"}')
    assert (found.id, found.command) == ("x", ChannelCommand(Op.SEED, b"\xff", label=b"7"))
    found = read_request(b'{"op":"reset","blocked":"2 min","dry_run":true}')
    assert found.command == ChannelCommand(Op.RESET, None, blocked_ms=120_000, dry_run=True)


@pytest.mark.parametrize("op", ["skip", "seed", "reset"])
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_channel_that_nobody_knows_is_named_so(op, dry_run):
    shards = Shards()
    shards.batch(1000, [(b"known", 0)])
    label = {"label": 9} if op == "seed" else {}
    commands = [
        {"op": op, "channel": name, "id": name, "dry_run": dry_run, **label}
        for name in ("known", "Known")
    ]
    done = {event["command"]: event for event in shards.batch(2000, [], commands)}
    assert "known" not in done["known"], "only where it is not"
    assert done["Known"]["known"] is False
    assert done["Known"]["channels"] == (op == "seed")


def test_a_refusal_says_that_nobody_knows_the_channel():
    (answer,) = Shards().batch(1000, [], [{"op": "seed", "channel": "a", "label": 0}])
    assert (answer["reason"], answer["known"]) == ("not-ahead", False)
