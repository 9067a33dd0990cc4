"""`sequencer check`: what was understood, and what cannot work."""

from __future__ import annotations

import json
import re

from streaming.kafka.embedded import free_port


def test_check_shows_what_was_understood(here, config):
    path = config(
        {"labels": {"kind": "cyclic", "modulus": 1000}},
        spark={"spark.hadoop.secret.key": "geheim1"},
        kafka={"properties": {"security.protocol": "PLAINTEXT", "ssl.key.password": "geheim2"}},
    )
    code, out, err = here("check", path)
    assert code == 0
    assert err == f"{path} can work.\n"
    for part in ("p.in", "p.out", "p.rejects", "p.events", "header('label')", "7 days", "= 499"):
        assert part in out
    code, out, _ = here("check", path, "--json")
    found = json.loads(out)
    assert found["pipelines"]["p"]["buffer"] == {"held": 10_000, "window": 499, "full": "reject"}
    assert found["pipelines"]["p"]["input"] == ["p.in"]
    assert found["service"]["shards"] == 16
    assert found["kafka"]["properties"] == ["security.protocol", "ssl.key.password"]
    assert found["spark"] == {"spark.hadoop.secret.key": "***"}
    assert "geheim" not in out


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


def test_check_refuses_properties_that_no_client_takes(here, config):
    code, _, err = here("check", config(kafka={"properties": {"security.protocol": "NONE"}}))
    assert code == 2
    assert "kafka.properties are refused" in err


def test_run_refuses_what_check_refuses(here, config):
    """Before Kafka is asked for anything: there is none at this address."""
    labels = {"kind": "custom", "initial": "a", "next": "not_there_at_all:after"}
    address = f"127.0.0.1:{free_port()}"
    path = config({"labels": labels}, kafka={"bootstrap_servers": address})
    code, _, err = here("run", path)
    assert code == 2
    assert "not_there_at_all" in err
