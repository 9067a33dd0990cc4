"""Labels by order of arrival, against a naive model and against the text's actor."""

import json
import random

import pandas as pd
import pytest

from sequencer import LinearLabels, OrderedProxy
from sequencer.actors import System, ordered_label_beh
from streaming.arrow.output import output_rows
from streaming.config import parse_config
from streaming.disciplines import DISCIPLINES
from streaming.disciplines.channels.codec import decode_shard, encode_shard
from streaming.disciplines.channels.core import step_shard
from streaming.disciplines.channels.records import record_schema
from streaming.disciplines.state_row import StateRow
from streaming.errors import ConfigError
from streaming.service.checkpoint import Identity
from streaming.service.planning import make_plan
from streaming.verify.channel import ChannelSettings, Material, judge
from streaming.verify.records import Record
from tests.seeds import seeds
from tests.streaming.disciplines.channels.plans import pack

RETIRE_MS = 50
TOPICS = {"p.out": 3, "p.rejects": 3, "p.events": 3}


def label_plan(**settings):
    table = {"discipline": "label", "retire_after": f"{RETIRE_MS} ms", **settings}
    config = parse_config({"pipelines": {"p": table}}, {}, "c.toml")
    own = DISCIPLINES["label"].identity(config.pipelines["p"])
    return make_plan(config, "p", Identity("label", 4, 2, ["p.in"], own), TOPICS)


def arriving(rng, count):
    """Records that say anything about labels, epochs and FIN: nobody asks them."""
    headers = [("label", b"7"), ("label", None), ("epoch", b"x"), ("fin", b""), ("own", b"\xff")]
    return [
        {
            "topic": 0,
            "partition": 0,
            "offset": offset,
            "timestamp": 1000 + offset,
            "key": rng.choice([b"a", b"b", b"", b"\xff", None]),
            "value": rng.choice([None, b"", b"v%d" % offset]),
            "headers": [
                {"key": key, "value": value} for key, value in rng.sample(headers, rng.randrange(4))
            ],
        }
        for offset in range(count)
    ]


def naive(batches):
    """A counter for each key, which begins again when the key was silent for long enough."""
    counters, found, retired = {}, [], []
    for now, records in batches:
        silent = [key for key, counter in counters.items() if now - counter[2] >= RETIRE_MS]
        retired += [(key, counters.pop(key)[0]) for key in silent]
        for record in records:
            key = record["key"]
            if key is None:
                continue
            counter = counters.setdefault(key, [0, now, now])
            found.append((key, record["value"], counter[0], counter[1]))
            counter[0] += 1
            counter[2] = now
    silent = [key for key, counter in counters.items() if now - counter[2] >= RETIRE_MS]
    retired += [(key, counters.pop(key)[0]) for key in silent]
    return found, retired


def run(batches, plan):
    """A shard's rows after each batch, and what it wrote: deliveries, rejects, events."""
    row, wrote, out, rejects, events = StateRow(), [], [], [], []
    for now, records in batches:
        shard = decode_shard(row, record_schema(plan))
        after, writes = step_shard(shard, pack(records, plan), now, plan)
        row, writes = encode_shard(after), [*writes]
        wrote.append((row, pd.concat(output_rows(0, writes, after.totals)).to_dict("list")))
        for topic, table in writes:
            rows = table.to_pylist()
            if topic == "p.events":
                events += [json.loads(each["value"]) for each in rows]
            else:
                (out if topic == "p.out" else rejects).extend(rows)
    return wrote, out, rejects, events


def cut(rng, records, pauses):
    """Batches of records, each with its time."""
    now, batches, first = 1000, [], 0
    while first < len(records):
        size = rng.randrange(30)
        now += rng.choice(pauses)
        batches.append((now, records[first : first + size]))
        first += size
    return batches


@pytest.mark.parametrize("seed", seeds(4, 200))
def test_labels_count_arrivals_by_key(seed):
    rng, plan = random.Random(seed), label_plan()
    records = arriving(rng, 200)
    batches = cut(rng, records, [0, 1, 20, 80])
    wrote, out, rejects, events = run(batches, plan)
    assert run(batches, plan)[0] == wrote, "a repeated batch gives the same bytes"
    wanted, retired = naive(batches)
    by_key = sorted(out, key=lambda each: (each["key"], each["incarnation"], each["sequence"]))
    mine = [(each["key"], each["value"], each["label"], each["epoch"]) for each in by_key]
    assert mine == sorted(wanted, key=lambda each: (each[0], each[3], each[2]))
    assert all(each["label"] == each["sequence"] for each in out)
    assert all(each["epoch"] == each["incarnation"] for each in out)
    assert {each["reject-reason"] for each in rejects} == {"missing-channel"}
    assert len(rejects) + len(out) == len(records)
    told = [(each["event"], each["sequence"]) for each in events]
    assert sorted(told) == sorted(("retired", count) for _, count in retired)


@pytest.mark.parametrize("seed", seeds(2, 50))
def test_any_split_into_batches_gives_the_same(seed):
    rng, plan = random.Random(seed), label_plan()
    records = arriving(rng, 120)
    runs = [cut(rng, records, [0]), [(1000, [record]) for record in records], [(1000, records)]]

    def found(batches):
        _, out, rejects, _ = run(batches, plan)
        return [sorted(map(str, each)) for each in (out, rejects)]

    assert found(runs[0]) == found(runs[1]) == found(runs[2])


def test_it_does_what_the_text_says():
    """`ordered_label_beh`, one actor for each key, and `ordered_proxy_beh` put in order again."""
    rng, plan = random.Random(5), label_plan()
    records = [record for record in arriving(rng, 90) if record["key"] is not None]
    _, out, _, _ = run([(7, records)], plan)
    for key in {record["key"] for record in records}:
        system, labelled = System(seed=1), []
        ordered = system.create(lambda _me, message, to=labelled: to.append(message))
        actor = system.create(ordered_label_beh(ordered, 0, lambda label: label + 1))
        for record in records:
            if record["key"] == key:
                system.send(record["value"], actor)
                system.run()
        mine = [(each["label"], each["value"]) for each in out if each["key"] == key]
        assert mine == labelled
        delivered = []
        proxy = OrderedProxy(delivered.append, LinearLabels())
        for label, value in sorted(mine, key=lambda _: rng.random()):
            proxy((label, value))
        assert delivered == [value for _, value in labelled]


def test_after_a_stop_a_channel_begins_a_higher_epoch():
    """Who reads the labels may have run meanwhile, and have forgotten the channel: label 1 waits."""
    plan = label_plan()
    record = arriving(random.Random(1), 1)[0] | {"key": b"a"}
    _, out, _, events = run([(100, [record]), (100 + RETIRE_MS, [record])], plan)
    assert [(each["label"], each["epoch"]) for each in out] == [(0, 100), (0, 100 + RETIRE_MS)]
    assert [(each["event"], each["incarnation"]) for each in events] == [("retired", 100)]
    assert not plan.counts_pauses


def test_inspect_shows_the_next_label():
    plan = label_plan()
    records = [{**each, "key": b"a"} for each in arriving(random.Random(1), 3)]
    wrote, *_ = run([(1234, records)], plan)
    (told,) = DISCIPLINES["label"].describe(plan)(0, wrote[-1][0])
    assert {name: told[name] for name in ("channel", "epoch", "next")} == {
        "channel": "a",
        "epoch": 1234,
        "next": 3,
    }
    assert set(DISCIPLINES["label"].shown) <= told.keys()


def test_reset_begins_again_under_a_higher_epoch_and_other_commands_are_refused():
    plan = label_plan()
    record = arriving(random.Random(1), 1)[0] | {"key": b"a", "partition": 0}

    def command(offset, **said):
        value = json.dumps({"channel": "a", **said}).encode()
        return {**record, "topic": 1, "offset": offset, "key": None, "value": value, "headers": []}

    batches = [(7, [record]), (7, [command(0, op="reset"), command(1, op="seed", label=5), record])]
    _, out, _, events = run(batches, plan)
    assert [(each["label"], each["epoch"]) for each in out] == [(0, 7), (0, 8)]
    assert [each.get("reason") for each in events] == [None, "unknown-op"]


ADDED = ("label", "epoch", "sequence", "incarnation")


def material(labels):
    inputs = [Record("in", 0, n, 5, b"k", b"%d" % n, (("label", b"no"),)) for n in range(4)]
    outputs = [
        Record(
            "out", 0, n, 5, b"k", b"%d" % n, (("label", b"no"), *zip(ADDED, numbers, strict=True))
        )
        for n, numbers in enumerate(labels)
    ]
    return Material(inputs, outputs, [], [])


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({}, None),
        ({2: (b"2", b"9", b"2", b"17")}, "bad-output"),
        ({2: (b"3", b"17", b"2", b"17")}, "bad-output"),
        ({2: (b"3", b"17", b"3", b"17"), 3: (b"4", b"17", b"4", b"17")}, "hole"),
        ({3: None}, "lost"),
    ],
)
def test_verify_judges_labels(change, fault):
    right = {n: (b"%d" % n, b"17", b"%d" % n, b"17") for n in range(4)}
    numbers = [each for each in {**right, **change}.values() if each is not None]
    settings = ChannelSettings("p", LinearLabels(), 1, pass_unlabelled=True, gives_labels=True)
    verdict = judge(settings, material(numbers))
    assert fault in verdict.counts if fault else verdict.good, verdict.faults


def test_pipelines_that_could_not_read_the_labels_are_refused():
    def faults(prefix="", other=None, **more):
        tables = {"l": {"discipline": "label"}, "c": {"discipline": "channel", "input": "l.out"}}
        tables["c"] |= more
        tables |= {"d": {"discipline": "channel", **other}} if other else {}
        try:
            parse_config({"service": {"header_prefix": prefix}, "pipelines": tables}, {}, "c.toml")
        except ConfigError as error:
            return list(error.faults)
        return []

    assert faults() == faults(retire_after="8 days") == faults("s.", input="other") == []
    assert faults("s.") == [
        "pipelines.c.input: l.out has its epochs from pipelines.l as the header s.epoch, and a "
        "channel pipeline reads epoch; leave service.header_prefix out"
    ]
    shorter = (
        "retire_after: is shorter than that of pipelines.l, which would go on with "
        "labels of channels that are forgotten here; make it longer"
    )
    assert faults(retire_after="6 days") == [f"pipelines.c.{shorter}"]
    long, short = ({"channel": f"{days}*", "retire_after": f"{days} days"} for days in (8, 6))
    assert faults(rules=[long, {"channel": "a"}, short]) == [f"pipelines.c.rules[2].{shorter}"]
    assert faults(other={"input": "c.out"}) == []
    assert faults(other={"input": "c.out", "retire_after": "6 days"}) == [f"pipelines.d.{shorter}"]


def test_of_labels_from_several_pipelines_those_count_that_are_remembered_longest():
    tables = {
        f"l{days}": {"discipline": "label", "retire_after": f"{days} days"} for days in range(1, 30)
    }
    inputs = [f"{name}.out" for name in tables]
    tables["c"] = {"discipline": "channel", "input": inputs, "retire_after": "29 days"}
    tables["d"] = {"discipline": "channel", "input": "c.out", "retire_after": "28 days"}
    with pytest.raises(ConfigError) as refused:
        parse_config({"pipelines": tables}, {}, "c.toml")
    (fault,) = refused.value.faults
    assert fault.startswith("pipelines.d.retire_after: is shorter than that of pipelines.l29")
