"""From what users write and what a checkpoint pinned to what workers know."""

import json
import pickle
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException

from streaming.config import parse_config
from streaming.disciplines import DISCIPLINES
from streaming.disciplines.groups.commands import read_command
from streaming.errors import ConfigError, StorageUnavailable
from streaming.kafka.choice import own_settings
from streaming.kafka.client_settings import KNOWN_BROKERS
from streaming.service import planning
from streaming.service.checkpoint import Checkpoint, Identity
from streaming.service.decisions import PINNED, Decisions
from streaming.service.planning import (
    kept_partitions,
    known_partitions,
    make_plan,
    shards,
    state_partitions,
)
from streaming.wire import known

GROUPS = {"G0": ["A", "B"], "G1": ["B", "C"]}


def planned(discipline, service=None, state_partitions=3, **settings):
    tables = {"pipelines": {"p": {"discipline": discipline, **settings}}}
    config = parse_config({"service": service or {}, **tables}, {}, "c.toml")
    mine = config.pipelines["p"]
    own = DISCIPLINES[discipline].identity(mine)
    shards = config.service.shards or 16
    identity = Identity(discipline, shards, state_partitions, list(mine.input), own)
    return make_plan(config, "p", identity, {"p.out": 5})


@pytest.mark.parametrize(
    ("discipline", "more", "shards"),
    [("channel", {}, 6), ("group", {"groups": GROUPS}, 3), ("multicast", {}, 3)],
)
def test_plans_of_all_disciplines(discipline, more, shards):
    """Shards that send each other messages are as many as state partitions."""
    plan = planned(discipline, {"name": "s", "shards": 6, "header_prefix": "x-"}, **more)
    assert plan.discipline == discipline
    assert (plan.service, plan.pipeline) == ("s", "p")
    assert (plan.shards, plan.state_partitions) == (shards, 3)
    assert (plan.output, plan.rejects, plan.events) == ("p.out", "p.rejects", "p.events")
    assert plan.partitions == {"p.out": 5}
    assert plan.headers("sequence") == "x-sequence"
    assert plan.reads[: len(plan.inputs)] == plan.inputs == ("p.in",)
    again = pickle.loads(pickle.dumps(plan))  # it travels to workers
    assert (type(again), again.reads) == (type(plan), plan.reads)


def test_workers_are_given_the_brokers_that_the_driver_knows(monkeypatch):
    monkeypatch.setattr(known, "_known", {})
    before = planned("channel").producer
    listed = before["bootstrap.servers"]
    known.keep(listed, known.KnownBrokers("c", (("b", 2), ("a", 1))))
    given = planned("channel").producer
    assert given == {**before, KNOWN_BROKERS: '["c", [["a", 1], ["b", 2]]]'}
    assert own_settings(given).connection["known_brokers"] == given[KNOWN_BROKERS]


def test_no_subscriber_s_topic_leads_back_into_its_pipeline():
    """Its messages would go round for ever; a file that names such a member is refused."""
    group = {"discipline": "group", "output": "m.{subscriber}", "input": ["m.in", "late.out"]}
    early = {"discipline": "channel", "input": ["m.raw", "raw"]}
    late = {"discipline": "channel", "input": ["early.out"]}
    behind = {"discipline": "channel", "input": ["m.ann"]}
    pipelines = {"m": group, "early": early, "late": late, "behind": behind}
    assert planning.taken_names(parse_config({"pipelines": pipelines}, {}, ""), "m") == ["m.raw"]


def test_groups_know_the_topics_of_others_that_a_subscriber_may_be_called_for():
    group = {"discipline": "group", "groups": {"G": ["A"]}, "output": "m.{subscriber}"}
    other = {"discipline": "channel", "output": "m_x.out", "events": "m.events", "rejects": "r"}
    config = parse_config({"pipelines": {"p": group, "q": other}}, {}, "c.toml")
    assert planning.taken_names(config, "p") == ["m.events", "m_x.out"]
    assert planning.taken_names(config, "q") == []
    plan = planned(**group, state_partitions=1)
    plan = replace(plan, taken=["m.events", "m_x.out"])
    assert plan.under({"taken": []}).taken == [], "a repeated batch does as it was planned"
    asked = [("join", "events"), ("join", "x.out"), ("join", "B"), ("leave", "events")]
    commands = [{"op": op, "group": "G", "member": member} for op, member in asked]
    read = [read_command(json.dumps(each).encode(), plan) for each in commands]
    assert [each.reason for each in read] == ["bad-member", "bad-member", "", ""]
    assert read[0].detail.endswith("gives the topic m.events, which another pipeline uses")


def test_inputs_have_one_order_whatever_users_write():
    plan = planned("channel", input=["b", "a", "c"])
    assert plan.inputs == ("a", "b", "c")


def test_names_in_kafka_are_of_one_partition():
    plan = planned("channel", {"name": "s"})
    names = {plan.transactional_id(n) for n in range(3)} | {plan.progress_group(3)}
    assert names == {f"s.p.{n}" for n in range(4)}


def test_labels_that_cannot_be_imported_are_a_fault_of_the_pipeline():
    labels = {"kind": "custom", "initial": "a", "next": "not_there_at_all:after"}
    with pytest.raises(ConfigError, match=r"pipelines\.p.*not_there_at_all"):
        planned("channel", labels=labels)


@pytest.mark.parametrize(
    ("service", "cores", "sizes"),
    [
        ({}, 2, (2, 2)),
        ({}, 1, (1, 1)),
        ({}, 2_000, (1_024, 1_024)),
        ({"shards": 16}, 2, (16, 2)),
        ({"shards": 1}, 2, (1, 1)),
        ({"state_partitions": 8}, 2, (8, 8)),
    ],
)
def test_a_new_checkpoint_has_a_shard_for_each_state_partition(service, cores, sizes):
    """Unless the file says how many."""
    config = parse_config(
        {"service": service, "pipelines": {"p": {"discipline": "channel"}}}, {}, "c.toml"
    )
    assert (shards(config, cores), state_partitions(config, cores)) == sizes


def test_an_output_that_was_made_again_smaller_stops_a_start_while_a_batch_is_in_doubt(tmp_path):
    checkpoint = Checkpoint(str(tmp_path), "p")
    for log in ("offsets", "commits"):
        (tmp_path / "p" / log).mkdir(parents=True)
    (tmp_path / "p" / "offsets" / "0").write_text("v1")
    Decisions(checkpoint).standing(0, {"partitions": {"out": 6, "events": 1}})
    with pytest.raises(ConfigError, match=r"batch 0, .*out has 1 partition and had 6\.") as error:
        kept_partitions(checkpoint, {"out": 1, "events": 1}, print)
    assert "--alter --topic out --partitions 6." in error.value.remedy
    assert kept_partitions(checkpoint, {"out": 6, "events": 1}, print)["out"] == 6
    others = Checkpoint(str(tmp_path), "q"), Checkpoint(str(tmp_path), "new")
    Decisions(others[0]).standing(0, {"partitions": {"events": 2}})
    assert known_partitions([checkpoint, *others]) == {"out": 6, "events": 2}, "so they are made"
    (tmp_path / "p" / "commits" / "0").write_text("v1")
    assert kept_partitions(checkpoint, {"out": 1, "events": 1}, print)["out"] == 1, "none is"


def test_a_topic_that_is_written_again_has_its_keys_where_they_were(tmp_path):
    """It was given partitions, then the file named another one for a while."""
    checkpoint = Checkpoint(str(tmp_path), "p")
    said = []
    for batch, there in enumerate([{"out": 2}, {"other": 5}]):
        kept = kept_partitions(checkpoint, there, lambda text, **_: said.append(text))
        Decisions(checkpoint).standing(batch, {"partitions": kept})
    assert kept["other"] == 5
    assert not said
    kept = kept_partitions(checkpoint, {"out": 5}, lambda text, **_: said.append(text))
    assert kept["out"] == 2
    assert "out has 5 partitions now. Its keys stay in the first 2" in said[0]


REFUSED = """An error occurred while calling o9.createAtomic.
: java.io.IOException: Mkdirs failed
\tat org.apache.hadoop.fs.Files.create(Files.java:1)
"""


def test_a_checkpoint_that_no_query_was_started_on_begins_anew(tmp_path):
    """Of what a start wrote that then failed, while a lock keeps others away."""
    first, wanted = (
        Identity("channel", 4, 2, ["in"], {"labels": {"kind": "linear"}, "channel": channel})
        for channel in ("lower(key)", "key")
    )
    checkpoint = Checkpoint(str(tmp_path), "p")
    checkpoint.write_identity(first)
    with pytest.raises(ConfigError, match="channel is"):
        planning.pinned(None, checkpoint, wanted, ())  # not locked
    checkpoint.claim()
    try:
        assert planning.pinned(None, checkpoint, wanted, ()) == wanted == checkpoint.identity()
        (tmp_path / "p" / "metadata").write_text("")  # torn: the next start removes it
        with pytest.raises(ConfigError, match="channel is"):
            planning.pinned(None, checkpoint, first, ())
        assert checkpoint.identity() == wanted
    finally:
        checkpoint.release()


@pytest.mark.parametrize("text", ["", '{"format": 999}'])
def test_an_identity_that_is_torn_or_of_another_version_is_not_used_before_a_query(tmp_path, text):
    """Nothing was read or written with it, so there is nothing to restore."""
    wanted = Identity("channel", 4, 2, ["in"], {"labels": {"kind": "linear"}, "channel": "key"})
    checkpoint = Checkpoint(str(tmp_path), "p")
    checkpoint.claim()
    try:
        (tmp_path / "p" / "identity.json").write_text(text)
        assert planning.pinned(None, checkpoint, wanted, ()) == wanted == checkpoint.identity()
    finally:
        checkpoint.release()


class WithoutLock(Checkpoint):
    """In a folder, as if it lay in an object store."""

    lockable = False


@pytest.mark.parametrize("first", ["another copy", "this one", "nobody"])
def test_of_copies_that_begin_a_checkpoint_the_first_says_what_it_is(tmp_path, monkeypatch, first):
    """A late request of the second would give the state of the first other shards."""
    checkpoint = WithoutLock(str(tmp_path), "p")
    own = {"labels": {"kind": "linear"}, "channel": "key"}
    wanted, other = (Identity("channel", shards, 2, ["in"], own) for shards in (4, 16))

    def write_new(_session, location, name, content):
        if first == "another copy":
            checkpoint.write_identity(other)
        if first != "this one":
            raise PySparkException(REFUSED)
        Path(location).mkdir()
        Path(location, name).write_bytes(content)

    monkeypatch.setattr(planning, "write_new", write_new)
    if first == "nobody":
        with pytest.raises(
            StorageUnavailable,
            match=r"take .*p/identity\.json: java.io.IOException: Mkdirs failed\. Nothing was started",
        ):
            planning.pinned(None, checkpoint, wanted, ("shards",))
        return
    shards = 16 if first == "another copy" else 4
    assert planning.pinned(None, checkpoint, wanted, ("shards",)).shards == shards
    assert checkpoint.identity() == replace(wanted, shards=shards)
    if first == "another copy":
        with pytest.raises(ConfigError, match="shards is 4, but the checkpoint"):
            planning.pinned(None, checkpoint, wanted, ())


def test_a_jvm_that_ends_while_a_checkpoint_begins_is_no_storage_that_is_away(
    tmp_path, monkeypatch
):
    """A start would be tried for ever."""
    error = MagicMock(side_effect=Py4JNetworkError("Answer from Java side is empty"))
    monkeypatch.setattr(planning, "write_new", error)
    own = {"labels": {"kind": "linear"}, "channel": "key"}
    wanted = Identity("channel", 4, 2, ["in"], own)
    with pytest.raises(Py4JNetworkError):
        planning.pinned(None, WithoutLock(str(tmp_path), "p"), wanted, ())


def test_a_service_of_another_name_takes_no_checkpoint_without_a_lock(tmp_path):
    """Kafka keeps apart copies of one name: each of the two would deliver what the other plans."""

    def config(name):
        tables = {"service": {"name": name}, "pipelines": {"p": {"discipline": "channel"}}}
        return parse_config(tables, {}, "c.toml")

    first, second = (WithoutLock(str(tmp_path), "p") for _ in range(2))
    planning.require_own(config("a"), first)
    first.claim("a")  # it may wait for Kafka before its first batch
    planning.require_own(config("a"), second)
    with pytest.raises(ConfigError, match="The service 'a' is at work"):
        planning.require_own(config("b"), second)
    planning.require_own(config("b"), Checkpoint(str(tmp_path), "p"))
    first.release()
    planning.require_own(config("b"), second)


def test_who_was_killed_before_its_first_batch_under_another_name_starts_again(tmp_path):
    """What the last batch was planned with does not say who is at work now."""
    tables = {"service": {"name": "b"}, "pipelines": {"p": {"discipline": "channel"}}}
    config = parse_config(tables, {}, "c.toml")
    killed, again = (WithoutLock(str(tmp_path), "p") for _ in range(2))
    Decisions(killed).standing(0, {PINNED: {"service.name": "a"}})
    killed.claim("b")
    planning.require_own(config, again)
    tables["service"]["name"] = "a"
    with pytest.raises(ConfigError, match="The service 'b' is at work"):
        planning.require_own(parse_config(tables, {}, "c.toml"), again)
