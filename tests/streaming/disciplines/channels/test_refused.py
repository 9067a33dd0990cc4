"""A shard's step on real packs where Kafka refused deliveries or rejects in an earlier run."""

import json
from dataclasses import replace

import google_crc32c
import pytest

from sequencer.channels import Rules
from sequencer.labels import LinearLabels
from streaming.disciplines.channels.codec import decode_shard, encode_shard
from streaming.disciplines.channels.core import step_shard
from streaming.disciplines.channels.records import record_schema
from streaming.disciplines.refused import FINDING, Refusal, Refused, found
from streaming.disciplines.state_row import StateRow
from streaming.wire.blocks import plain_values
from tests.streaming.disciplines.channels.plans import pack, plan

PLAN = plan(Rules(LinearLabels()))
HEADED = replace(PLAN, channel="header('channel')")
SAID = "MESSAGE_TOO_LARGE"


def record(offset, key, label, value=None, channel=b""):
    return {
        "topic": 0,
        "partition": 2,
        "offset": offset,
        "timestamp": 500 + offset,
        "key": key,
        "value": b"v%d" % offset if value is None else value,
        "headers": [{"key": "label", "value": b"%d" % label}],
        "channel": channel,
    }


def run(shard, records, refused=(), p=PLAN):
    """A batch: the shard after it, and the rows that it writes, by topic."""
    names = [field.name for field in record_schema(p)]
    rows = [{name: each[name] for name in names} for each in records]
    decisions = {FINDING: json.loads(json.dumps(refused))}
    after, writes = step_shard(shard, pack(rows, p), 1_000, p, Refused.of(decisions))
    written = {"out": [], "rejects": [], "events": []}
    for topic, table in writes:
        written[topic] += plain_values(table).to_pylist()
    return decode_shard(encode_shard(after), record_schema(p)), written


def begun(p=PLAN):
    return decode_shard(StateRow(), record_schema(p))


def refusal(topic, row, names, why="too-large"):
    headers = {name: str(row[name]).encode() for name in names}
    checksum = google_crc32c.value(row["value"] or b"")
    given = Refusal(topic, why, SAID, row["key"], headers, row["timestamp"], checksum)
    return found(given, PLAN)


def delivery(row, why="too-large"):
    return refusal("out", row, ("incarnation", "sequence"), why)


def reject(row):
    return refusal("rejects", row, ("reject-topic", "reject-partition", "reject-offset"))


def numbered(rows):
    return [(row["value"], row["sequence"]) for row in rows]


def test_a_refused_delivery_is_rejected_and_gives_its_label_up():
    records = [record(n, b"k", n) for n in range(4)]
    shard, written = run(begun(), records)
    finding = delivery(written["out"][1], "refused")
    shard, again = run(begun(), records, [[finding]])
    assert numbered(again["out"]) == [(b"v0", 0), (b"v2", 1), (b"v3", 2)]
    (rejected,) = again["rejects"]
    assert (rejected["value"], rejected["key"], rejected["timestamp"]) == (b"v1", b"k", 501)
    assert rejected["reject-reason"] == "refused"
    assert rejected["reject-detail"] == SAID
    assert (rejected["reject-partition"], rejected["reject-offset"]) == (2, 1)
    (gap,) = (json.loads(row["value"]) for row in again["events"])
    assert (gap["from"], gap["to"], gap["count"], gap["reason"]) == (1, 2, 1, "refused")
    assert shard.totals.rejected == {"refused": 1}
    assert (shard.totals.delivered, shard.totals.gaps, shard.totals.held) == (3, 1, 0)


def test_several_runs_name_deliveries_as_they_were_in_each():
    records = [record(n, b"k", n) for n in range(5)]
    _, first = run(begun(), records)
    runs = [[delivery(first["out"][1])]]
    _, second = run(begun(), records, runs)
    runs.append([delivery(second["out"][1])])
    assert runs[0][0]["name"] == runs[1][0]["name"]
    _, third = run(begun(), records, runs)
    assert numbered(third["out"]) == [(b"v0", 0), (b"v3", 1), (b"v4", 2)]
    assert [row["value"] for row in third["rejects"]] == [b"v1", b"v2"]


@pytest.mark.parametrize("size", [10, 20_000])
def test_a_held_one_is_refused_when_it_goes_out(size):
    shard, written = run(begun(), [record(n, b"k", n, b"%d" % n * size) for n in (1, 2)])
    assert not written["out"]
    batch = [record(0, b"k", 0)]
    _, written = run(shard, batch)
    _, again = run(shard, batch, [[delivery(written["out"][1])]])
    assert numbered(again["out"]) == [(b"v0", 0), (b"2" * size, 1)]
    assert [row["value"] for row in again["rejects"]] == [b"1" * size]


def test_where_the_key_is_not_the_channel_the_record_says_which_one_it_is():
    records = [record(n, b"k", 0, channel=b"%d" % n) for n in range(3)]
    _, written = run(begun(HEADED), records, p=HEADED)
    assert {(row["key"], row["sequence"], row["incarnation"]) for row in written["out"]} == {
        (b"k", 0, 1_000)
    }
    second = next(row for row in written["out"] if row["value"] == b"v1")
    _, again = run(begun(HEADED), records, [[delivery(second)]], HEADED)
    assert sorted(numbered(again["out"])) == [(b"v0", 0), (b"v2", 0)]
    assert [row["value"] for row in again["rejects"]] == [b"v1"]


def test_what_other_shards_deliver_is_not_looked_for():
    records = [record(n, b"k", n) for n in range(3)]
    _, written = run(begun(), records)
    others = [delivery({**row, "key": b"another"}) for row in written["out"]]
    _, again = run(begun(), records, [others])
    assert again == written


def test_a_reject_that_its_topic_refuses_goes_without_its_value_then_without_all():
    records = [record(0, b"k", 0), record(1, b"k", 0), record(2, b"k", 0, b"x" * 70)]
    _, written = run(begun(), records)
    second = written["rejects"][1]
    _, again = run(begun(), records, [[reject(second)]])
    kept, stripped = again["rejects"]
    assert kept == written["rejects"][0]
    own = ("key", "value", "headers", "timestamp", "reject-detail")
    assert {k: v for k, v in stripped.items() if k not in own} == {
        k: v for k, v in second.items() if k not in own
    }
    assert (stripped["key"], stripped["value"], stripped["timestamp"]) == (b"k", None, 502)
    assert stripped["headers"] == second["headers"]
    assert stripped["reject-detail"] == (
        f"without its value (70 bytes), as the rejects' topic refuses that: {SAID}"
    )
    _, again = run(begun(), records, [[reject(second)], [reject(stripped)]])
    bare = again["rejects"][1]
    assert [bare[name] for name in ("key", "value", "headers", "timestamp")] == [
        None, None, None, 1_000,
    ]  # fmt: skip
    assert bare["reject-reason"] == "duplicate"
    assert bare["reject-offset"] == 2


def test_both_details_of_one_record():
    records = [record(n, b"k", n) for n in range(2)]
    _, first = run(begun(), records)
    runs = [[delivery(first["out"][1])]]
    _, second = run(begun(), records, runs)
    _, third = run(begun(), records, [*runs, [reject(second["rejects"][0])]])
    assert third["rejects"][0]["reject-detail"].startswith(f"{SAID}; without its value (2 bytes)")
