"""Notices in a shard's output: in their place, typed for readers, the same bytes in a repeat."""

import json
from dataclasses import replace

import pandas as pd
import pytest

from sequencer.channels import Rules, Skip, Wait
from sequencer.labels import LinearLabels
from streaming.arrow.columns import flat
from streaming.arrow.output import output_rows
from streaming.clients.deliveries import ChangeNotice, read
from streaming.disciplines.channels.codec import decode_shard, encode_shard
from streaming.disciplines.channels.core import step_shard
from streaming.disciplines.channels.records import record_schema
from streaming.disciplines.state_row import StateRow
from tests.streaming.disciplines.channels.plans import pack, plan

RULES = Rules(LinearLabels(), gap=Skip(10), notices=True)


def sent(offset, key, label, *, epoch=None, fin=False):
    headers = [{"key": "label", "value": b"%d" % label}]
    headers += [{"key": "epoch", "value": b"%d" % epoch}] if epoch is not None else []
    headers += [{"key": "fin", "value": None}] if fin else []
    place = {"topic": 0, "partition": 0, "offset": offset, "timestamp": 5}
    return place | {"key": key, "value": b"%d" % label, "headers": headers}


def asked(offset, **command):
    place = {"topic": 1, "partition": 0, "offset": offset, "timestamp": 5}
    return place | {"key": None, "value": json.dumps(command).encode(), "headers": None}


BATCHES = [
    (100, [sent(0, b"a", 0), sent(1, b"a", 2), sent(2, b"b", 0), sent(3, b"\xff", 1)]),
    (110, [sent(4, b"b", 1)]),
    (120, [sent(5, b"a", 5), sent(6, b"a", 0, epoch=1), sent(7, b"a", 1, epoch=1, fin=True)]),
    (130, [asked(0, op="reset", channel="a", id="r", by="me")]),
    (140, [sent(8, b"a", 0), sent(9, b"b", 3), asked(1, op="reset", blocked="0 s")]),
    (150, [asked(2, op="reset", blocked="0 s", id="all")]),
]


def run(p, batches=BATCHES):
    """What each batch writes, and the last state."""
    row, written = StateRow(), []
    for now_ms, records in batches:
        shard = decode_shard(row, record_schema(p))
        after, writes = step_shard(shard, pack(records, p), now_ms, p)
        row = encode_shard(after)
        written.append(([*writes], after.totals))
    return row, written


def streams(p, written):
    """Each channel's stream, as readers get it."""
    found = {}
    for writes, _ in written:
        for table in (table for topic, table in writes if topic == p.output):
            names = [n for n in table.column_names if n not in
                     ("key", "value", "headers", "timestamp", "partition")]  # fmt: skip
            for each in table.to_pylist():
                own = [(h["key"], h["value"]) for h in each["headers"] or ()]
                added = [(n, str(each[n]).encode() if type(each[n]) is int else
                          each[n].encode() if type(each[n]) is str else each[n])
                         for n in names if each[n] is not None]  # fmt: skip
                place = {
                    "topic": "out",
                    "partition": 0,
                    "offset": 0,
                    "timestamp": each["timestamp"],
                }
                record = place | {"key": each["key"], "value": each["value"]}
                found.setdefault(each["key"], []).append(
                    read("channel", record, (*own, *added), "")
                )
    return found


def shown(stream):
    return [each.word if isinstance(each, ChangeNotice) else each.value for each in stream]


@pytest.mark.parametrize("origin", [False, True])
def test_notices_stand_in_their_place_and_say_what_their_events_say(origin):
    p = replace(plan(RULES), origin=origin)
    _, written = run(p)
    found = streams(p, written)
    of_a = [b"0", "gap", b"2", "gap", b"5", "epoch", b"0", b"1", "fin", "reset", b"0"]
    assert shown(found[b"a"]) == of_a
    assert [each.sequence for each in found[b"a"]] == [*range(10), 0]
    assert [each.incarnation for each in found[b"a"]] == [100] * 10 + [140]
    assert shown(found[b"b"]) == [b"0", b"1", "reset"]
    assert shown(found[b"\xff"]) == ["gap", b"1"]
    told = [json.loads(value) for writes, _ in written for topic, table in writes
            if topic == p.events for value in flat(table["value"]).to_pylist()]  # fmt: skip
    notices = [each for stream in found.values() for each in stream if type(each) is ChangeNotice]
    assert {each.timestamp for each in notices} == {110, 120, 130, 150}
    kinds = ("gap", "fin", "epoch", "command-done")
    for each in (each for each in notices if each.detail.get("command") != "all"):
        assert each.detail in [event for event in told if event["event"] in kinds]
    (reset,) = [each.detail for each in found[b"a"] if shown([each]) == ["reset"]]
    assert (reset["event"], reset["command"], reset["by"]) == ("command-done", "r", "me")
    totals = written[-1][1]
    assert (totals.delivered, totals.notices) == (8 + 1, len(notices))
    assert totals.seen == totals.delivered + sum(totals.rejected.values()) + totals.held


def test_a_repeat_gives_the_same_bytes_and_off_there_are_none():
    def written(p):
        row, batches = run(p)
        return row, [
            pd.concat(output_rows(0, writes, totals)).to_dict("list") for writes, totals in batches
        ]

    assert written(plan(RULES)) == written(plan(RULES))
    p = plan(replace(RULES, notices=False))
    _, batches = run(p)
    assert all(
        not {"notice", "detail"} & {*table.column_names}
        for writes, _ in batches
        for _, table in writes
    )
    assert [each.sequence for each in streams(p, batches)[b"a"]] == [0, 1, 2, 3, 4, 0]


def test_the_switch_is_decided_with_the_batch():
    p = plan(replace(RULES, notices=False))
    assert p.under(plan(RULES).decisions()).rules.notices
    assert not plan(RULES).under(p.decisions()).rules.notices


def test_a_batch_of_nothing_but_a_notice():
    p = plan(RULES)
    _, written = run(p, [(100, [sent(0, b"a", 0)]), (130, [asked(0, op="reset", channel="a")])])
    assert [(topic, len(table)) for topic, table in written[1][0]] == [("out", 1), ("events", 1)]


@pytest.mark.parametrize("compression", ["", "lz4"])
def test_where_notices_are_cut_does_not_depend_on_the_order_of_packs(compression):
    """They have no size of their own; what is held, and so not at hand, has none either."""
    p = replace(plan(replace(RULES, gap=Wait())), compression=compression)
    first = [sent(0, b"waits", 5), *(sent(1 + n, b"c%d" % n, 0) for n in range(50))]
    resets = [asked(n, op="reset", channel=f"c{n}") for n in range(50)]
    large = sent(60, b"large", 0) | {"value": bytes(1_500_000)}
    shard = decode_shard(StateRow(), record_schema(p))
    shard, _ = step_shard(shard, pack(first, p), 100, p)
    state = encode_shard(shard)
    found = []
    for order in ([resets, [large], [sent(61, b"s", 0)]], [resets, [sent(61, b"s", 0)], [large]]):
        packs = [each for records in order for each in pack(records, p)]
        _, writes = step_shard(decode_shard(state, record_schema(p)), packs, 200, p)
        found.append([(topic, len(table)) for topic, table in writes])
    assert found[0] == found[1]
    assert len(found[0]) == 2
