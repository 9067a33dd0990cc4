"""The channel discipline through the real job: one run over many small pipelines, judged apart."""

import json

import pytest

from streaming.disciplines.state_keys import _spark_hash_int
from tests.kafka_helpers import create_topics, produce, read_all
from tests.service_helpers import blocked, inspect, run_once, status, verify, write_config
from tests.spark.channel_once_inputs import CROWD, HASHED, NON_UTF8, PIPELINES, inputs

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def ran(broker, tmp_path_factory):
    folder = tmp_path_factory.mktemp("once")
    prefix = f"{folder.name}-"
    pipelines = {}
    for name, each in PIPELINES.items():
        topics = {role: f"{prefix}{name}.{role}" for role in ("output", "rejects", "events")}
        given = each.get("input")
        topics["input"] = f"{prefix}{given}put" if given else f"{prefix}{name}.input"
        pipelines[name] = {**{k: v for k, v in each.items() if k != "header"}, **topics}
        if not given:
            create_topics(broker.bootstrap, {topics["input"]: 2})
            produce(broker.bootstrap, topics["input"], inputs()[name])
    config = write_config(folder, broker.bootstrap, pipelines)
    run_once(config)

    def read(name, role="output"):
        return read_all(broker.bootstrap, pipelines[name][role])

    read.config = config
    return read


def values(records):
    return [record.value for record in records]


def reasons(records):
    return [(record.value, record.header("reject-reason").decode()) for record in records]


def events(records):
    return [json.loads(record.value) for record in records]


def test_the_sequence_of_the_text(ran):
    out = ran("text")
    assert values(out) == [b"z", b"y", b"x", b"w"]
    assert [r.header("sequence") for r in out] == [b"0", b"1", b"2", b"3"]
    assert len({r.header("incarnation") for r in out}) == 1
    assert [name for name, _ in out[0].headers] == ["label", "sequence", "incarnation"]


def test_the_net_with_random_delays(ran):
    assert b"".join(values(ran("net"))) == b"abcdefghijk"


def test_bytes_headers_timestamps_and_partitions_go_through(ran):
    sent = inputs()["bytes"]
    out = ran("bytes")
    got = {(r.key, r.header("sequence")): r for r in out}
    for key, sequence, record in [
        (NON_UTF8, b"0", sent[1]),
        (NON_UTF8, b"1", sent[0]),
        (b"", b"0", sent[2]),
    ]:
        r = got[key, sequence]
        assert (r.value, r.timestamp) == (record.value, record.timestamp)
        assert r.headers[:-2] == record.headers
    from kafka.partitioner.default import murmur2

    assert all(r.partition == (murmur2(r.key) & 0x7FFFFFFF) % 2 for r in out)


def test_bad_records_are_rejected_with_reason_and_place(ran):
    assert values(ran("bad")) == [b"good"]
    rejects = ran("bad", "rejects")
    assert sorted(reasons(rejects)) == [
        (b"1", "missing-channel"),
        (b"2", "missing-label"),
        (b"3", "bad-label"),
        (b"4", "bad-label"),
        (b"5", "bad-label"),
        (b"6", "bad-epoch"),
        (b"7", "bad-label"),
        (b"again", "duplicate"),
    ]
    sent = {record.value: record for record in inputs()["bad"]}
    inputs_read = {(r.partition, r.offset): r for r in ran("bad", "input")}
    for r in rejects:
        own = len(sent[r.value].headers)
        assert r.headers[:own] == sent[r.value].headers
        assert all(name.startswith("reject-") for name, _ in r.headers[own:])
        place = (int(r.header("reject-partition")), int(r.header("reject-offset")))
        assert inputs_read[place].value == r.value
        assert inputs_read[place].timestamp == r.timestamp
        assert r.header("reject-topic").decode().endswith("bad.input")


def test_duplicates_can_be_dropped_and_are_counted(ran):
    assert values(ran("drop")) == [b"first", b"x"]
    assert ran("drop", "rejects") == []
    figures = status(ran.config)["drop"]
    assert (figures["in"], figures["delivered"], figures["dropped"]) == (3, 2, 1)


def test_what_has_no_label_passes_where_it_arrives(ran):
    out = ran("passing")
    assert values(out) == [b"none", b"0", b"1", b"2", None]
    assert [int(r.header("sequence")) for r in out] == [0, 1, 2, 3, 4]
    assert sorted(reasons(ran("passing", "rejects"))) == [
        (b"empty", "bad-label"),
        (b"no channel", "missing-channel"),
    ]
    figures = status(ran.config)["passing"]
    assert (figures["in"], figures["delivered"], figures["passed"]) == (7, 5, 2)
    assert verify(ran.config, "--pipeline", "passing")[0] == 0


def test_once_leaves_held_what_settles(ran):
    assert ran("settling") == []
    figures = status(ran.config)["settling"]
    assert (figures["in"], figures["held"], figures["blocked"]) == (2, 2, 1)
    (channel,) = inspect(ran.config, "--pipeline", "settling")["channels"]
    assert (channel["next"], channel["missing"], channel["held"]) == (None, [], 2)
    assert verify(ran.config, "--pipeline", "settling")[0] == 0


def test_labels_by_order_of_arrival(ran):
    out = [r for r in ran("labelled") if r.key == b"k"]
    assert values(out) == [b"first", None]
    for n, r in enumerate(out):
        born = r.header("incarnation")
        number = b"%d" % n
        assert r.headers[-4:] == [
            ("label", number),
            ("epoch", born),
            ("sequence", number),
            ("incarnation", born),
        ]
    assert reasons(ran("labelled", "rejects")) == [(b"no channel", "missing-channel")]
    assert verify(ran.config, "--pipeline", "labelled")[0] == 0
    found = inspect(ran.config, "--pipeline", "labelled", "--channel", "k")
    assert [each["next"] for each in found["channels"]] == [2]


def test_rules_by_channel(ran):
    assert sorted(reasons(ran("ruled", "rejects"))) == [
        (b"a0", "duplicate"),
        (b"a6", "outside-window"),
        (b"v3", "buffer-full"),
        (b"v7", "buffer-full"),
        (b"x0", "duplicate"),
    ]
    assert sorted(values(ran("ruled"))) == [b"a0", b"v0", b"x0"]
    assert status(ran.config)["ruled"]["dropped"] == 1
    assert verify(ran.config, "--pipeline", "ruled")[0] == 0
    found = inspect(ran.config, "--pipeline", "ruled")["channels"]
    assert sorted((each["rule"] or "") for each in found) == ["", "*", "vip.*"]


def test_epochs_and_fin(ran):
    assert values(ran("epochs")) == [b"a", b"c", b"A", b"B", b"end"]
    assert sorted(reasons(ran("epochs", "rejects"))) == [
        (b"beyond", "after-fin"),
        (b"stale", "stale-epoch"),
    ]
    told = events(ran("epochs", "events"))
    assert [e["event"] for e in told] == ["gap", "epoch", "fin"]
    gap = told[0]
    assert (gap["channel"], gap["epoch"], gap["from"], gap["to"], gap["count"], gap["reason"]) == (
        "k",
        0,
        1,
        2,
        1,
        "epoch",
    )


def test_cyclic_labels_wrap(ran):
    assert values(ran("cyclic")) == [b"%d" % n for n in range(10)]


def test_custom_labels(ran):
    assert values(ran("custom")) == [b"a", b"b", b"c", b"d", b"e"]
    assert sorted(reasons(ran("custom", "rejects"))) == [
        (b"?", "bad-label"),
        (b"k", "outside-window"),
    ]


def test_bounds(ran):
    assert values(ran("bounds")) == [b"0", b"1", b"2", b"3"]
    assert sorted(reasons(ran("bounds", "rejects"))) == [
        (b"11", "outside-window"),
        (b"4", "buffer-full"),
    ]


def test_a_full_buffer_can_skip(ran):
    assert values(ran("skipfull")) == [b"2"]
    assert reasons(ran("skipfull", "rejects")) == [(b"0", "late")]
    told = events(ran("skipfull", "events"))
    assert [(e["from"], e["to"], e["reason"]) for e in told] == [(0, 2, "overflow")]
    assert status(ran.config)["skipfull"]["held"] == 2


def test_inspect_reads_the_state_back(ran):
    found = inspect(ran.config, "--pipeline", "skipfull", "--channel", "k")
    assert (found["pipeline"], found["discipline"]) == ("skipfull", "channel")
    (channel,) = found["channels"]
    told = {name: channel[name] for name in ("next", "held", "missing", "given_up", "sequence")}
    assert told == {
        "next": 3,
        "held": 2,
        "missing": [[3, 4], [5, 6]],
        "given_up": [[0, 2]],
        "sequence": 1,
    }
    assert channel["incarnation"] == int(ran("skipfull")[0].header("incarnation"))


def test_more_that_wait_than_batches_report_are_read_from_the_state(ran):
    found = blocked(ran.config)["crowd"]["waiting"]
    everyone = {(f"c{n}", 0, 1) for n in range(CROWD)}
    assert {(each["channel"], each["next"], each["held"]) for each in found} == everyone
    assert found == sorted(found, key=lambda each: (each["since"], each["channel"]))
    assert blocked(ran.config, "--max", "1000")["crowd"]["waiting"] == found[:1000]


def test_channel_and_label_as_sql(ran):
    assert values(ran("sql")) == [b"0", b"1", b"2"]
    assert {r.key for r in ran("sql")} == {b"x-0", b"x-1", b"x-2"}
    assert len({r.partition for r in ran("sql")}) == 1, "the partition follows the channel"


def test_state_keys_are_hashed_as_spark_does(ran):
    """The channels of this pipeline are Spark's hashes of numbers, as its state names them."""
    found = inspect(ran.config, "--pipeline", "hashed")["channels"]
    assert {int(each["channel"]) for each in found} == {_spark_hash_int(n) for n in HASHED}


def test_a_channel_by_header(ran):
    assert sorted(values(ran("named"))) == [b"a", b"empty"], "an empty name is a channel"
    assert sorted(reasons(ran("named", "rejects"))) == [
        (b"none", "missing-channel"),
        (b"null", "missing-channel"),
    ]


def test_the_accounting_adds_up_and_a_rerun_changes_nothing(ran):
    before = status(ran.config)
    for name, figures in before.items():
        ended = figures["delivered"] + sum(figures["rejected"].values())
        assert figures["in"] == ended + figures["dropped"] + figures["held"], name
    again = ("text", "drop", "epochs", "bounds", "skipfull", "labelled")
    outputs = {name: (ran(name), ran(name, "rejects"), ran(name, "events")) for name in again}
    chosen = [word for name in (*again, "second", "ordered") for word in ("--pipeline", name)]
    run_once(ran.config, *chosen)
    for name, (out, rejects, told) in outputs.items():
        assert (ran(name), ran(name, "rejects"), ran(name, "events")) == (out, rejects, told)
    assert values(ran("second")) == [b"z", b"y", b"x", b"w"], (
        "one pipeline's output is another's input"
    )
    assert sorted(values(ran("ordered")), key=str) == [None, b"first", b"of another"]
    assert verify(ran.config, "--pipeline", "ordered")[0] == 0
