"""`sequencer check`: what was understood, and what cannot work."""

from __future__ import annotations

import importlib
import json
import re
import sys
import time

import pytest

from streaming.kafka.ports import free_port
from tests.kafka_helpers import SECONDS_MAX, create_topics


def test_check_shows_what_was_understood(here, config):
    nobody = f"127.0.0.1:{free_port()}"
    properties = {"security.protocol": "PLAINTEXT", "ssl.key.password": "geheim2"}
    path = config(
        {"labels": {"kind": "cyclic", "modulus": 1000}},
        spark={"spark.hadoop.secret.key": "geheim1"},
        kafka={"bootstrap_servers": nobody, "properties": properties},
    )
    code, out, err = here("check", path)
    assert code == 0
    assert err == (
        f"Kafka at {nobody} does not answer. The settings of its topics were not compared.\n"
        f"{path} can work.\n"
    )
    for part in ("p.in", "p.out", "p.rejects", "p.events", "header('label')", "7 days", "= 499"):
        assert part in out
    code, out, _ = here("check", path, "--json")
    found = json.loads(out)
    assert found["pipelines"]["p"]["buffer"] == {"held": 10_000, "window": 499, "full": "reject"}
    assert found["pipelines"]["p"]["input"] == ["p.in"]
    assert found["service"]["delivery"] == "exactly-once"
    assert found["kafka"]["properties"] == ["security.protocol", "ssl.key.password"]
    assert found["spark"] == {"spark.hadoop.secret.key": "***"}
    assert "geheim" not in out


def test_check_looks_whether_the_checkpoint_can_be_written(here, config, tmp_path, monkeypatch):
    full = tmp_path / "disk"
    path = config(service={"checkpoint": str(full / "deep/er")})
    code, _, err = here("check", path)
    assert (code, "The checkpoint" in err) == (0, False)
    assert not full.exists()
    monkeypatch.setattr(importlib.import_module("streaming.cli.check"), "ROOM_BYTES_MIN", 2**60)
    assert re.search(
        rf"The checkpoint {full}/deep/er: its disk has room for [\d,]+ MiB more.\n",
        here("check", path)[2],
    )
    full.touch()
    code, _, err = here("check", path)
    assert code == 0, "the service may be another user's"
    assert f"The checkpoint {full}/deep/er: this user cannot write to {full}.\n" in err


def test_check_names_readers_of_labels_that_forget_as_soon_as_who_gives_them(here, tmp_path):
    path = tmp_path / "c.toml"
    tables = '[pipelines.l]\ndiscipline = "label"\n[pipelines.c]\ndiscipline = "channel"\n'
    path.write_text(f'{tables}input = ["l.out"]\n')
    said = "pipelines.c.retire_after is as long as that of pipelines.l."
    assert said in here("check", path)[2]
    path.write_text(f'{tables}input = ["l.out"]\nretire_after = "8 days"\n')
    assert said not in here("check", path)[2]


def test_check_tells_every_fault(here, config):
    code, out, err = here("check", config({"inptu": "a", "duplicates": "no"}, servce={}))
    assert (code, out) == (2, "")
    assert len(re.findall(r"^  \S+: ", err, re.MULTILINE)) == 3
    assert "servce: unknown key; did you mean service?" in err
    assert err.endswith("\n  Nothing was started.\n")


def test_check_tries_custom_labels(here, config, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "labels_of_check.py").write_text("def after(label):\n    return label\n")
    labels = {"kind": "custom", "initial": "a", "next": "labels_of_check:after"}
    code, _, err = here("check", config({"labels": labels}))
    assert code == 2
    assert "pipelines.p.labels: labels_of_check:after does not make labels" in err
    labels["next"] = "labels_of_check:nobody"
    code, _, err = here("check", config({"labels": labels}))
    assert code == 2
    assert "pipelines.p.labels: labels_of_check:nobody cannot be imported" in err


def test_check_names_properties_that_have_no_effect(here, config):
    given = {"linger.ms": 5, "client.rack": "a", "client.id": "me"}
    code, out, err = here("check", config(kafka={"properties": given}), "--json")
    assert code == 0, err
    assert "kafka.properties: no effect in this service: client.rack, linger.ms\n" in err
    assert json.loads(out)["kafka"]["without_effect"] == ["client.rack", "linger.ms"]


def test_check_refuses_properties_that_no_client_takes(here, config):
    code, _, err = here("check", config(kafka={"properties": {"security.protocol": "NONE"}}))
    assert code == 2
    assert "'NONE' is unknown; write one of" in err


@pytest.mark.parametrize(
    ("checkpoint", "said"),
    [
        ("ftp://host/x", "Write a folder, or a URI of hdfs://, s3a:// or gs://."),
        ("hdfs://host:8020/x", "pip install 'spark-sequencer[hdfs]'"),
    ],
)
def test_check_looks_whether_the_checkpoint_can_be_used(
    here, config, monkeypatch, checkpoint, said
):
    monkeypatch.setitem(sys.modules, "hdfs_native.fsspec", None)
    code, _, err = here("check", config(service={"checkpoint": checkpoint}))
    assert (code, said in err) == (2, True), err


def test_run_refuses_what_check_refuses(here, config):
    """Before Kafka is asked for anything: there is none at this address."""
    labels = {"kind": "custom", "initial": "a", "next": "not_there_at_all:after"}
    address = f"127.0.0.1:{free_port()}"
    path = config({"labels": labels}, kafka={"bootstrap_servers": address})
    code, _, err = here("run", path)
    assert code == 2
    assert "not_there_at_all" in err


def test_check_compares_what_topics_take(here, config, broker, topic_prefix):
    from confluent_kafka.admin import AdminClient, NewTopic

    create_topics(broker.bootstrap, {topic_prefix + "in": 1})
    topics = {"input": topic_prefix + "in", "output": topic_prefix + "out"}
    path = config(topics, name=topic_prefix[:-1], kafka={"bootstrap_servers": broker.bootstrap})
    code, _, err = here("check", path)
    assert (code, err) == (0, f"{path} can work.\n"), "a topic that is missing has no settings"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    narrow = NewTopic(topics["output"], 1, config={"max.message.bytes": "50000"})
    admin.create_topics([narrow], operation_timeout=SECONDS_MAX)[narrow.topic].result(SECONDS_MAX)
    deadline = time.monotonic() + SECONDS_MAX
    while code == 0 and time.monotonic() < deadline:  # brokers hear of new topics a little later
        code, _, err = here("check", path)
    assert code == 2
    assert f"{topics['output']} has max.message.bytes = 50000" in err
    assert "--add-config max.message.bytes=1048588" in err
