"""What pages show, without a service: who waits, places, where a login leads."""

import base64
from pathlib import Path

import pyarrow as pa
import pytest

from streaming.arrow.ipc import to_state
from streaming.config import load_config
from streaming.console import values, views
from streaming.console.app import _own_page
from streaming.console.history import Recorder
from streaming.disciplines.channels.waiting import SCHEMA
from streaming.service.checkpoint import Checkpoint
from tests.service_helpers import channel_topics, write_config


@pytest.fixture
def config(tmp_path):
    (tmp_path / "checkpoints" / "p").mkdir(parents=True)
    settling = {"labels": {"kind": "linear", "start": "first-seen", "settle": "2 s"}}
    path = write_config(tmp_path, "127.0.0.1:9", {"p": {**channel_topics("t."), **settling}})
    return load_config(Path(path))


def told(*rows):
    """What a shard tells of its channels: key, epoch, next position, since (ms), how many held.

    Nothing is asked for.
    """
    columns = zip(*((*row, 0, 0) for row in rows), strict=True)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(each, field.type) for each, field in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )
    return base64.b64encode(to_state(batch)).decode()


def test_who_waits_is_read_again_when_it_changed(config):
    checkpoint = Checkpoint.of(config, "p")
    checkpoint.write_waiting({0: told((b"a", 0, 5, 1_000, 2), (b"b", 0, 7, 2_000, 1))})
    recorder = Recorder(config)
    for asked, keys in (("", ["a", "b"]), ("b", ["b"]), ("", ["a", "b"])):
        assert [row["key"] for row in views.blocked(recorder, "p", asked)["rows"]] == keys
    assert views.waiting(config, "p", None) is views.waiting(config, "p", None), "kept"
    checkpoint.write_waiting({0: told((b"b", 0, 7, 2_000, 1))})
    assert [row["key"] for row in views.blocked(recorder, "p", "")["rows"]] == ["b"]


def test_a_channel_that_settles_says_that_it_waits_for_its_start(config):
    Checkpoint.of(config, "p").write_waiting({0: told((b"a", 0, -1, 1_000, 2))})
    (row,) = views.blocked(Recorder(config), "p", "")["rows"]
    assert row["next"] is None
    assert row["fate"].startswith("begins with the lowest label")


def test_who_looks_among_some_of_those_that_wait_is_told_so(config, monkeypatch):
    monkeypatch.setattr(views, "LISTED_MAX", 2)
    Checkpoint.of(config, "p").write_waiting({0: told((b"a", 0, 5, 1, 2), (b"b", 0, 7, 2, 1))})
    recorder = Recorder(config)
    for count, asked, searched in ((2, "b", None), (3, "b", 2), (3, "", None)):
        recorder.pipelines["p"].totals.blocked = count
        assert views.blocked(recorder, "p", asked)["searched"] == searched


@pytest.mark.parametrize("text", ["", "t", "t/0", "t@1", "/0@1", "t/x@1", "t/0@-1", "t/0@²"])
def test_what_is_no_place(text):
    with pytest.raises(ValueError, match="is no place"):
        values.place_in(text)


def test_a_topic_may_have_any_name_in_a_place():
    assert values.place_in(" a/b/3@12 ") == ("a/b", 3, 12)


@pytest.mark.parametrize(
    ("then", "page"),
    [
        ("/p/p/blocked", "/p/p/blocked"),
        ("", "/"),
        ("//evil.example/p/", "/"),
        ("/p/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("/p/a\r\nx: y", "/"),
    ],
)
def test_a_login_leads_to_our_own_pages_only(then, page):
    assert _own_page(then) == page


def test_how_far_back():
    assert [views.back_of(each) for each in ("3600", "1", "x", "", "9" * 99)] == [3600, *[600] * 4]
