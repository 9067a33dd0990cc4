"""`sequencer topics`: what is there, what is missing, what is made."""

from __future__ import annotations

import json

from streaming.kafka.ports import free_port


def test_topics_lists_and_creates(here, broker, topic_prefix, config):
    path = config(name=topic_prefix + "p", kafka={"bootstrap_servers": broker.bootstrap})
    names = [f"{topic_prefix}p.{role}" for role in ("in", "out", "rejects", "events", "commands")]
    code, out, err = here("topics", path)
    assert code == 1
    assert [line.split("\t")[0] for line in out.splitlines()] == names
    assert out.count("\tmissing\n") == 5
    assert err == "5 missing; --create creates them.\n"
    code, out, err = here("topics", path, "--create")
    assert code == 0
    assert sorted(err.split()[1::2]) == sorted(names)
    assert out.count("\t8 partitions\n") == 4
    assert out.endswith(" commands\t1 partition\n")
    code, out, err = here("topics", path, "--create", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)[0] == {
        "name": names[0], "pipeline": topic_prefix + "p", "role": "input", "partitions": 8,
    }  # fmt: skip


def test_no_kafka_has_status_1(here, config, monkeypatch):
    monkeypatch.setattr("streaming.kafka.connection.REFUSED_SECONDS_MAX", 1)
    address = f"127.0.0.1:{free_port()}"
    code, out, err = here("topics", config(kafka={"bootstrap_servers": address}))
    assert (code, out) == (1, "")
    assert f"Kafka at {address} does not answer" in err
