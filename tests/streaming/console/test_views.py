"""What pages show, without a service: places, where a login leads."""

import pytest

from streaming.console import values, views
from streaming.console.app import _own_page


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
