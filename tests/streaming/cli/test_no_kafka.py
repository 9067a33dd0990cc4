"""What every verb says without Kafka: that it waits, and after one limit that nobody answers."""

from __future__ import annotations

import pytest

from streaming.kafka.ports import free_port

VERBS = {
    "topics": ("topics", "{file}"),
    "check": ("check", "{file}", "--rights"),
    "send": ("send", "t", "v", "--config", "{file}"),
    "tail": ("tail", "t", "--config", "{file}"),
    "skip": ("skip", "{file}", "--channel", "a"),
    "group": ("group", "remove", "{file}", "G0"),
    "node": ("node", "create", "{file}", "n", "p"),
    "resend": ("resend", "{file}", "--pipeline", "p"),
    "verify": ("verify", "{file}"),
    "replay": ("replay", "{file}", "--pipeline", "p", "--set", "gap.after=5s"),
    "advise": ("advise", "{file}", "--measure"),
    "status": ("status", "{file}", "--lag"),
    "graph": ("graph", "{file}", "--pipeline", "g", "--running"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_it_waits_says_so_and_gives_up(here, tmp_path, monkeypatch, verb):
    monkeypatch.setattr("streaming.kafka.connection.REFUSED_SECONDS_MAX", 0.5)
    monkeypatch.setattr("streaming.kafka.connection.ANNOUNCED_AFTER_SECONDS", 0.1)
    address = f"127.0.0.1:{free_port()}"
    file = tmp_path / "c.toml"
    file.write_text(
        f"""[service]
checkpoint = "{tmp_path}/checkpoint"
[kafka]
bootstrap_servers = "{address}"
[pipelines.p]
discipline = "channel"
[pipelines.g]
discipline = "group"
groups = {{ G0 = ["A", "B"] }}
[pipelines.b]
discipline = "multicast"
"""
    )
    code, out, err = here(*(part.format(file=file) for part in VERBS[verb]))
    assert code == 1
    assert out == "" or verb == "check"
    assert f"Waiting for Kafka at {address}" in err
    assert f"Kafka at {address} does not answer (" in err
    assert "Nothing was changed." in err
