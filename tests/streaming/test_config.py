"""The configuration: every fault named with its key; nothing secret shown."""

import pytest

from sequencer.channels import Full, Gap
from streaming.checkpoint import Checkpoint, Identity
from streaming.config import parse_config
from streaming.errors import ConfigError


def parse(pipeline=None, environ=None, **tables):
    pipeline = {"discipline": "channel", **(pipeline or {})}
    return parse_config({"pipelines": {"p": pipeline}, **tables}, environ or {}, "test.toml")


def fault(*args, **kwargs):
    with pytest.raises(ConfigError) as error:
        parse(*args, **kwargs)
    return error.value.message


def test_defaults_are_those_of_the_contract():
    config = parse()
    p = config.pipelines["p"]
    assert (p.input, p.output, p.rejects, p.events) == (("p.in",), "p.out", "p.rejects", "p.events")
    assert (config.service.trigger.ms, config.service.shards) == (200, 16)
    assert config.service.delivery == "exactly-once"
    rules = config.rules("p")
    assert (rules.gap, rules.held_max, rules.window, rules.full) == (
        Gap.WAIT,
        10_000,
        1_000_000,
        Full.REJECT,
    )
    assert rules.retire_after_ms == 7 * 86_400_000


@pytest.mark.parametrize(
    ("pipeline", "said"),
    [
        ({"gap": {"policy": "skip"}}, 'pipelines.p.gap: policy "skip" needs after'),
        ({"gap": {"policy": "wait", "after": "5 s"}}, "after has no meaning"),
        ({"gap": {"policy": "skip", "after": "5 lightyears"}}, "pipelines.p.gap.after"),
        ({"gap": {"polcy": "skip"}}, "pipelines.p.gap.polcy: unknown key; did you mean policy?"),
        ({"buffer": {"held": 0}}, "pipelines.p.buffer.held"),
        ({"buffer": {"held": 1_000_001}}, "pipelines.p.buffer.held"),
        ({"buffer": {"full": "drop"}}, "pipelines.p.buffer.full: must be one of"),
        ({"labels": {"kind": "cyclic", "modulus": 10}, "buffer": {"window": 5}}, "write 4 or less"),
        ({"labels": {"kind": "cyclic", "modulus": 3}}, "pipelines.p.labels.modulus"),
        ({"labels": {"kind": "cyclic", "modulus": 8, "step": 4}}, "only 2 labels"),
        ({"labels": {"kind": "round"}}, "pipelines.p.labels"),
        ({"input": []}, "pipelines.p.input"),
        ({"input": ["a", "a"]}, "names a topic twice"),
        ({"input": "a b"}, "is no Kafka topic"),
        ({"output": "p.in"}, "own input"),
        ({"output": "x", "rejects": "x"}, "x is pipelines.p.output already"),
        ({"duplicates": "keep"}, "pipelines.p.duplicates"),
        ({"retire_after": "0 s"}, "pipelines.p.retire_after"),
        ({"discipline": "chanel"}, "pipelines.p.discipline: must be one of channel"),
    ],
)
def test_what_cannot_work_is_refused_with_its_key(pipeline, said):
    assert said in fault(pipeline)


def test_all_faults_come_at_once():
    said = fault(
        {"gap": {"policy": "skip"}, "buffer": {"held": 0}}, servic={}, service={"shards": 0}
    )
    for part in (
        "servic: unknown key; did you mean service?",
        "service.shards",
        "p.gap",
        "p.buffer",
    ):
        assert part in said


def test_the_window_of_cyclic_labels_is_the_largest_that_fits_by_default():
    assert parse({"labels": {"kind": "cyclic", "modulus": 100}}).rules("p").window == 49
    assert parse({"labels": {"kind": "cyclic", "modulus": 101}}).rules("p").window == 50
    assert parse({"labels": {"kind": "cyclic", "modulus": 2**40}}).rules("p").window == 1_000_000


def test_custom_labels_that_cannot_be_imported_are_named():
    config = parse({"labels": {"kind": "custom", "initial": "a", "next": "no.such:thing"}})
    with pytest.raises(
        ConfigError, match=r"pipelines\.p\.labels.*no\.such:thing cannot be imported"
    ):
        config.rules("p")


def test_pipelines_compose_but_not_in_a_circle():
    tables = {"a": {"discipline": "channel", "input": "b.out"}, "b": {"discipline": "channel"}}
    parse_config({"pipelines": tables}, {}, "t")
    tables["b"] = {"discipline": "channel", "input": "a.out"}
    with pytest.raises(ConfigError, match="in a circle"):
        parse_config({"pipelines": tables}, {}, "t")


def test_secrets_come_from_the_environment_and_are_never_shown():
    kafka = {"properties": {"sasl.password": "${PASSWORD}", "sasl.username": "u"}}
    config = parse(kafka=kafka, environ={"PASSWORD": "hunter2"})
    assert config.kafka.properties["sasl.password"] == "hunter2"
    assert "hunter2" not in repr(config)
    assert "the environment has no PASSWORD" in fault(kafka=kafka)
    bad = {"properties": {"sasl.password": ["hunter2"]}}
    assert "hunter2" not in fault(kafka=bad)


def test_the_address_can_come_from_the_environment():
    config = parse(environ={"SEQUENCER_BOOTSTRAP_SERVERS": "h:1"})
    assert config.kafka.bootstrap_servers == "h:1"


def test_a_checkpoint_keeps_what_may_not_change(tmp_path):
    checkpoint = Checkpoint(str(tmp_path), "p")
    first = Identity("channel", 16, 2, {"kind": "linear"}, "key")
    assert checkpoint.pin(first) == first
    more_cores = Identity("channel", 16, 8, {"kind": "linear"}, "key")
    assert checkpoint.pin(more_cores).state_partitions == 2
    for changed in (
        Identity("channel", 32, 2, {"kind": "linear"}, "key"),
        Identity("channel", 16, 2, {"kind": "cyclic"}, "key"),
        Identity("channel", 16, 2, {"kind": "linear"}, "value"),
    ):
        with pytest.raises(ConfigError, match="was made with"):
            checkpoint.pin(changed)


def test_the_batch_in_doubt_is_the_one_planned_but_not_done(tmp_path):
    checkpoint = Checkpoint(str(tmp_path), "p")
    assert checkpoint.batch_in_doubt() == -1
    for name in ("offsets/0", "offsets/1", "commits/0", "offsets/.2.crc"):
        path = tmp_path / "p" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert checkpoint.batch_in_doubt() == 1
    (tmp_path / "p" / "commits" / "1").touch()
    assert checkpoint.batch_in_doubt() == -1
