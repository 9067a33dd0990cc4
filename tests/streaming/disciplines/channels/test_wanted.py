"""What a shard asks for, as records; a batch that is repeated asks the same, byte by byte."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from sequencer.channels import Rules, Skip
from sequencer.custom_labels import CustomLabels
from sequencer.labels import LinearLabels
from streaming.arrow import output
from streaming.disciplines.channels.codec import decode_shard, encode_shard
from streaming.disciplines.channels.core import step_shard
from streaming.disciplines.channels.describe import describe
from streaming.disciplines.channels.records import record_schema
from streaming.disciplines.state_row import StateRow
from tests.streaming.disciplines.channels.plans import pack, plan
from tests.streaming.verify.channel_worlds import batches, history

PAGE = Path(__file__).parents[4] / "docs" / "channels.md"


def records(*rows, topic=0):
    return [
        {"topic": topic, "partition": 0, "offset": n, "timestamp": 0, "key": key, "value": value}
        | {"headers": [{"key": "label", "value": label}] if label else None}
        for n, (key, label, value) in enumerate(rows)
    ]


class Shard:
    """One shard, batch by batch, through its state as bytes."""

    def __init__(self, **how):
        self.plan, self.row = plan(Rules(**{"labels": LinearLabels(), "ask_ms": 100, **how})), None

    def batch(self, now_ms, given=()):
        """What it writes: tables by topic."""
        schema = record_schema(self.plan)
        row = StateRow() if self.row is None else self.row
        packs = pack(list(given), self.plan) if given else []
        after, writes = step_shard(decode_shard(row, schema), packs, now_ms, self.plan)
        self.row, self.totals = encode_shard(after), after.totals
        self.described = list(describe(decode_shard(self.row, schema), self.plan.rules))
        return {topic: table.to_pylist() for topic, table in writes}


@pytest.mark.parametrize("custom", [False, True])
def test_the_records(custom):
    labels = CustomLabels("L0", lambda text: f"L{int(text[1:]) + 1}") if custom else LinearLabels()
    named = "L%d" if custom else "%d"
    shard = Shard(labels=labels)
    rows = [(key, (named % n).encode(), b"v") for key in (b"a", b"\xff") for n in (0, 3)]
    assert "wanted" not in shard.batch(1000, records(*rows))
    (first, second) = shard.batch(1100)["wanted"]
    assert (first["key"], first["headers"], second["key"]) == (b"a", None, b"\xff")
    ends = ("L1", "L3") if custom else (1, 3)
    said = {"channel": "a", "epoch": 0, "from": ends[0], "to": ends[1], "try": 1}
    assert json.loads(first["value"]) == said
    assert json.loads(second["value"])["channel"] == {"base64": "/w=="}
    assert (shard.totals.asked, shard.totals.answered) == (2, 0)
    assert [each["asked"] for each in shard.described] == [[(*ends, 1)]] * 2
    shard.batch(1110, records((b"a", (named % 1).encode(), b"v")))
    assert (shard.totals.asked, shard.totals.answered) == (2, 1)
    absent = {**said, "from": ends[0], "not_coming": True}
    del absent["try"]
    events = shard.batch(1120, records((None, None, json.dumps(absent).encode()), topic=1))
    assert [json.loads(each["value"])["event"] for each in events["events"]] == [
        "gap",
        "command-done",
    ]
    assert shard.totals.answered == 2


def test_the_page_s_request_and_answer():
    text = PAGE.read_text().partition("### Asking for what is missing")[2]
    blocks = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    request, answer = map(json.loads, blocks[:2])
    shard = Shard(gap=Skip(30_000), ask_ms=200)
    named = [(b"IBM", b"%d" % n, b"v") for n in (*range(request["from"]), request["to"])]
    shard.batch(1000, records(*named))
    (asked,) = shard.batch(1200)["wanted"]
    assert json.loads(asked["value"]) == request
    wrote = shard.batch(1300, records((None, None, json.dumps(answer).encode()), topic=1))
    gap, done = (json.loads(each["value"]) for each in wrote["events"])
    assert (gap["reason"], gap["from"], gap["to"]) == ("not-coming", 41, 43)
    assert (done["event"], done["given_up"]) == ("command-done", 2)
    assert [each["value"] for each in wrote["out"]] == [b"v"], "what waited for it"


@pytest.mark.parametrize("seed", range(4))
def test_a_repeated_batch_gives_the_same_bytes(seed):
    """In another order of packs and with another life of the state before."""
    rules = Rules(LinearLabels(), ask_ms=3)
    the_plan, row = plan(rules), StateRow()
    schema, asked = record_schema(the_plan), 0
    for now_ms, some in batches(history(seed, LinearLabels(), answers=0.5), seed):
        runs = []
        for split in (1, 3):
            packs = [blob for n in range(split) for blob in pack(some[n::split], the_plan)]
            after, writes = step_shard(decode_shard(row, schema), packs[::-1], now_ms, the_plan)
            told = [(topic, pa.Table.to_pylist(table)) for topic, table in writes]
            parts = output.together(after.totals.parts)
            runs.append((told, parts, encode_shard(after)))
        assert runs[0][:2] == runs[1][:2]
        assert runs[0][2].core == runs[1][2].core
        row, asked = runs[0][2], after.totals.asked
    assert asked > 3
