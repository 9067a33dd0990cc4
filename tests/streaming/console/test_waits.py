"""Who waits, as pages show it, without a service."""

from pathlib import Path

import pytest

from streaming.config import load_config
from streaming.console import waits
from streaming.console.access import Access
from streaming.console.history import Recorder
from streaming.disciplines import discipline
from streaming.disciplines.waiting import Wait, waiting_report
from streaming.service.checkpoint import Checkpoint
from tests.console_helpers import Asking, code_of, serving, told
from tests.service_helpers import channel_topics, write_config

GROUPS = {"discipline": "group", "groups": {"G": ["A", "B"]}, "sequencing": "network"}
MULTICAST = {"discipline": "multicast", "order": "clock"}
TOKEN = "a-token-of-the-test"


def written(tmp_path, **pipeline):
    (tmp_path / "checkpoints" / "p").mkdir(parents=True)
    return write_config(tmp_path, "127.0.0.1:9", {"p": {**channel_topics("t."), **pipeline}})


@pytest.fixture
def config(tmp_path):
    labels = {"kind": "linear", "start": "first-seen", "settle": "2 s"}
    return load_config(Path(written(tmp_path, labels=labels)))


def test_who_waits_is_read_again_when_it_changed(config):
    checkpoint = Checkpoint.of(config, "p")
    checkpoint.write_waiting({0: told((b"a", 0, 5, 1_000, 2), (b"b", 0, 7, 2_000, 1))})
    recorder = Recorder(config)
    for asked, keys in (("", ["a", "b"]), ("b", ["b"]), ("", ["a", "b"])):
        assert [row["key"] for row in waits.blocked(recorder, "p", asked)["rows"]] == keys
    assert waits.waiting(config, "p", None) is waits.waiting(config, "p", None), "kept"
    checkpoint.write_waiting({0: told((b"b", 0, 7, 2_000, 1))})
    assert [row["key"] for row in waits.blocked(recorder, "p", "")["rows"]] == ["b"]


def test_epochs_are_a_column_where_there_are_some(config):
    checkpoint = Checkpoint.of(config, "p")
    for epoch in (0, 3):
        checkpoint.write_waiting({0: told((b"a", 0, 5, 1_000, 2), (b"b", epoch, 7, 2_000, 1))})
        assert waits.blocked(Recorder(config), "p", "")["has_epochs"] == bool(epoch)


def test_a_channel_that_settles_says_that_it_waits_for_its_start(config):
    Checkpoint.of(config, "p").write_waiting({0: told((b"a", 0, -1, 1_000, 2))})
    (row,) = waits.blocked(Recorder(config), "p", "")["rows"]
    assert row["next"] is None
    assert row["fate"].startswith("begins with the lowest label")


def test_who_looks_among_some_of_those_that_wait_is_told_so(config, monkeypatch):
    report = told((b"a", 0, 5, 1, 2), (b"b", 0, 7, 2, 1))
    recorder = Recorder(config)
    for cut in ("", f"{discipline.CUT}2"):
        monkeypatch.setattr(discipline, "LISTED_MAX", 3 if cut else 2)
        Checkpoint.of(config, "p").write_waiting({0: report + cut})
        assert not waits.waiting_one(config, "p", b"c")["is_certain"]
        for count, asked, searched in ((2, "b", None), (3, "b", 2), (3, "", None)):
            recorder.pipelines["p"].totals.blocked = count
            assert waits.blocked(recorder, "p", asked)["searched"] == searched


def test_what_becomes_of_a_channel_follows_from_its_own_rules(tmp_path):
    skip, fail = {"policy": "skip", "after": "90 s"}, {"policy": "fail", "after": "10 s"}
    rules = [{"channel": "vip.*", "gap": skip}, {"channel": "x*", "duplicates": "drop"}]
    path = written(tmp_path, gap=fail, rules=rules)
    settings = load_config(Path(path)).pipelines["p"]
    row = {"next": 5, "since": "1970-01-01T00:00:00Z"}
    said = [waits.fate(settings, {**row, "rule": rule}, 30) for rule in ("vip.*", "x*", None)]
    assert said == ["is given up in 60 s", *["the pipeline stops with the next batch"] * 2]


@pytest.mark.parametrize(("pipeline", "who"), [(GROUPS, "subscriber"), (MULTICAST, "peer")])
def test_subscribers_and_peers_that_wait_are_listed_and_cannot_be_released(tmp_path, pipeline, who):
    path = written(tmp_path, **pipeline)
    report = waiting_report({b"<b>": Wait(1_000, "G 5", 3), b"A": Wait(2_000, "G 7", 1)})
    Checkpoint.of(load_config(Path(path)), "p").write_waiting({0: report})
    with serving(path, Access(TOKEN)) as port:
        ask = Asking(port)
        assert ask("/login", {"token": TOKEN})[0] == 303
        code, page = ask("/p/p/blocked")
        assert code == 200
        assert f"<h1>Blocked {who}s</h1>" in page
        assert page.index("&lt;b&gt;") < page.index(">A</a>"), "the longest first"
        assert "<td>G 5</td><td>3</td>" in page
        assert waits.COMES in page
        assert f'href="/p/p/subscriber/{code_of(b"A")}"' in page
        assert "Release" not in page
        code, found = ask("/p/p/blocked?q=A")
        assert ("G 7" in found, "G 5" in found) == (True, False)
        assert 'href="/p/p/blocked"' in ask("/")[1], "the overview leads there"


def test_one_that_is_not_listed_may_wait_where_lists_are_full(tmp_path, monkeypatch):
    config = load_config(Path(written(tmp_path, **GROUPS)))
    Checkpoint.of(config, "p").write_waiting({0: waiting_report({b"A": Wait(1, "G 5", 3)})})
    found = waits.waiting_one(config, "p", b"A")
    assert [row["next"] for row in found["waits"]] == ["G 5"]
    assert waits.waiting_one(config, "p", b"B") == {"waits": [], "is_certain": True}
    monkeypatch.setattr(waits, "WAITING_MAX", 1)
    assert waits.waiting_one(config, "p", b"B") == {"waits": [], "is_certain": False}


def test_without_a_message_there_is_no_advice(tmp_path):
    with serving(Path(written(tmp_path)), Access(None)) as port:
        code, page = Asking(port)("/p/p/disorder")
    assert (code, "No message was measured yet." in page) == (200, True)
    assert "would have given up fewer" not in page
