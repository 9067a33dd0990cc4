"""A walk through all verbs that look: nothing is cut, coloured or too wide; `--json` is JSON.

With a service, and printed to be looked at: `tests/spark/test_walk.py`.
"""

import json
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pytest

from sequencer.channels import Arrivals, Rules, ShardState, step
from sequencer.labels import LinearLabels
from streaming.arrow.histograms import DISPLACED, LATE_MS, counted
from streaming.arrow.totals import Totals
from streaming.disciplines.channels.waiting import waiting_report
from streaming.service.checkpoint import Checkpoint
from tests.kafka_helpers import Record, create_topics, produce
from tests.service_helpers import channel_topics
from tests.walks import LONG, TABLES, TERMINALS, require_readable, verbs_with_json, walk, with_input

ELSEWHERE = {
    ("inspect",): "tests/spark/test_tutorial.py",
    ("simulate",): "test_simulate.py",
    ("bench",): "tests/spark/test_bench_live.py",
    **dict.fromkeys(
        [("seed",), ("reset",), *(("group", op) for op in ("add", "set", "join", "leave"))],
        "the answer is that of skip",
    ),
    **dict.fromkeys((("node", op) for op in ("create", "destroy", "release")), "likewise"),
}
"""Verbs with --json that are not walked through here."""


@pytest.fixture(scope="module")
def topics(tmp_path_factory):
    prefix = f"{tmp_path_factory.mktemp('walk').name}-"
    return {name: channel_topics(f"{prefix}{name}.") for name in "pgm"}


@pytest.fixture(scope="module")
def config(broker, topics, tmp_path_factory):
    """A service that nobody runs any more: its file, topics, and what its last batch left."""
    folder = tmp_path_factory.mktemp("walked")
    create_topics(
        broker.bootstrap, {topic: 1 for each in topics.values() for topic in each.values()}
    )
    config = with_input(folder, broker, topics)
    reject = [("reject-reason", b"late"), ("reject-topic", topics["p"]["input"].encode())]
    reject += [("reject-partition", b"0"), ("reject-offset", b"1")]
    produce(broker.bootstrap, topics["p"]["rejects"], [Record(LONG, b"0", reject)])
    node = {"event": "command-done", "op": "create-node", "node": "n", "owner": "p", "topic": "t"}
    value = json.dumps({**node, "partition": 0, "offset": 1, "at": "2026-11-24T03:00:00Z"})
    produce(broker.bootstrap, topics["m"]["events"], [Record(b"n", value.encode())])
    leave_state(str(folder / "checkpoints"))
    return config


def leave_state(folder):
    rows = [(key, label) for key in (b"IBM", LONG) for label in (b"0", b"2", b"5")]
    columns = [pa.array(column, pa.binary()) for column in zip(*rows, strict=True)]
    none, fin = pa.nulls(len(rows), pa.binary()), np.zeros(len(rows), dtype=bool)
    before = ShardState.empty()
    after = step(before, Arrivals(*columns, none, fin), 1000, Rules(LinearLabels())).state
    totals = Totals(seen=8, delivered=2, held=4, blocked=2, channels=2, rejected={"duplicate": 2})
    totals.measure(DISPLACED, counted(DISPLACED, np.array([1, 3]), 1_234_567))
    totals.measure(LATE_MS, counted(LATE_MS, np.array([90, 4_000]), 1_234_567))
    for name, shards in (("p", {"0": asdict(totals)}), ("g", {}), ("m", {})):
        checkpoint = Checkpoint(folder, name)
        last = {"shards": shards, "batch": 1, "batch_ms": 1, "at": "2026-11-24T03:00:00.000+00:00"}
        checkpoint.write_status(last)
    Checkpoint(folder, "p").write_waiting({0: waiting_report(before, after)})


def walked(config, topics):
    """The verbs, as they are typed."""
    place = f"{topics['p']['input']}/0@0"
    skip = ("skip", config, "--pipeline", "p", "--channel", LONG.decode(), "--timeout", "0.3")
    return [
        ("check", config),
        ("topics", config),
        ("status", config),
        ("status", config, "--blocked"),
        ("status", config, "--lag"),
        skip,
        ("group", "list", config),
        ("group", "remove", config, "G9", "--timeout", "0.3"),
        ("node", "list", config),
        ("resend", config, "--pipeline", "p"),
        ("advise", config),
        ("replay", config, "--pipeline", "p", "--set", "gap.after=2s"),
        ("verify", config, "--timeout", "0"),
        ("why", place, config),
        ("graph", config, "--pipeline", "g"),
        ("send", topics["g"]["input"], "hello", "--config", config, "--key", "A"),
        ("tail", topics["p"]["input"], "--config", config, "--max", "3", "--from-beginning"),
    ]


def test_nothing_is_cut_coloured_or_too_wide(config, topics):
    narrow = {60: TERMINALS[60]}  # lines that no table makes are the same in every terminal
    for words in walked(config, topics):
        terminals = TERMINALS if words[0] in TABLES else narrow
        require_readable(words, walk(words, terminals))


def test_every_verb_with_json_is_walked_through(config, topics):
    def verb(words):
        return words[:2] if words[0] in ("group", "node") else words[:1]

    assert verbs_with_json() == {*map(verb, walked(config, topics)), *ELSEWHERE}
