"""What pages show, without a service: places, where a login leads."""

from types import SimpleNamespace

import pytest
from starlette.requests import Request

from streaming.config import parse_config
from streaming.console import actions, values, views
from streaming.console.app import _own_page
from streaming.console.pages import _scope
from streaming.kafka.newest import Found, Search


@pytest.mark.parametrize("text", ["", "t", "t/0", "t@1", "/0@1", "t/x@1", "t/0@-1", "t/0@²"])
def test_what_is_no_place(text):
    with pytest.raises(ValueError, match="is not a place"):
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


@pytest.mark.parametrize("digits", [400, 5_000])
def test_numbers_of_many_digits_are_none(digits):
    """Python refuses to read those of more than 4,300; others are no time, no version, no label."""
    many = "000000060" + "9" * digits
    assert views.back_of(many) == 600
    assert (
        _scope(Request({"type": "http", "query_string": f"below={many}.1".encode()})).below is None
    )
    form = {"op": "set", "group": "G", "members": "a", "if_version": many}
    assert actions.read_group_command(form).if_version is None


FOUND = [
    Found("p.out", 0, n, 0, b"A", b"", ((name, b"7"), ("of", b"K%d" % n)))
    for n, name in enumerate(("label", "seq", "x-label"))
]


@pytest.mark.parametrize(
    ("pipeline", "offset"),
    [
        ({"discipline": "channel"}, 0),
        ({"discipline": "channel", "label": "header('seq')"}, 1),
        ({"discipline": "label"}, 2),
    ],
)
def test_records_are_found_by_the_header_that_has_the_label(monkeypatch, pipeline, offset):
    tables = {"service": {"header_prefix": "x-"}, "pipelines": {"p": pipeline}}
    monkeypatch.setattr(views, "search", lambda *a, **_: Search(list(filter(a[2], FOUND))))
    asked = {"key": "", "header": "", "label": "7"}
    rows, _ = views.records(parse_config(tables, {}, "c.toml"), "p", "p.out", asked, 1)
    assert [each.offset for each in rows] == [offset]


@pytest.mark.parametrize(("key", "count"), [("K1", 1), ("A", 3), ("B", 0), ("", 3)])
def test_rejects_are_found_by_channel_and_by_key(monkeypatch, key, count):
    pipeline = {"discipline": "channel", "channel": "header('of')"}
    config = parse_config({"pipelines": {"p": pipeline}}, {}, "c.toml")
    totals = SimpleNamespace(totals=SimpleNamespace(rejected={}))
    recorder = SimpleNamespace(config=config, pipelines={"p": totals})
    monkeypatch.setattr(views, "search", lambda *a, **_: Search(list(filter(a[2], FOUND))))
    found = views.rejects(recorder, "p", {"reason": "", "key": key}, 1)
    assert len(found["rows"]) == count
