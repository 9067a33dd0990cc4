"""Keys, headers and values that mean harm, or are large or binary, are shown cut and as text."""

from urllib.parse import quote

import pytest

from streaming.console import values
from streaming.console.access import Access
from tests.console_helpers import Asking, serving
from tests.kafka_helpers import Record, create_topics, produce
from tests.service_helpers import channel_topics, write_config

SCRIPT = b"<script>alert(1)</script>"
DEEP = b"[" * 4_000
NESTED = b"[" * 900 + b"]" * 900
"""1.6 MB where it is indented."""
PAGE_BYTES_MAX = 60_000
REJECT = ("reason", "topic", "partition", "offset")


@pytest.fixture(scope="module")
def ask(broker, tmp_path_factory):
    """Asks a console about a topic with one record of each kind."""
    folder = tmp_path_factory.mktemp("payloads")
    topics = channel_topics(f"{folder.name}.")
    create_topics(broker.bootstrap, dict.fromkeys(topics.values(), 1))
    config = write_config(folder, broker.bootstrap, {"p": {"discipline": "channel", **topics}})
    sent = [
        Record(SCRIPT, SCRIPT, [("label", SCRIPT), (SCRIPT.decode(), b"x")]),
        Record(b"large", SCRIPT * 36_000, [("label", b"0"), ("h", SCRIPT * 3_000)]),
        Record(b"\xff\x00\x1b[2J", bytes(range(256)) * 8, [("label", b"\xff\x00")]),
        Record(b"deep", DEEP, [("label", b"1")]),
        Record(b"spoof", b"v", [("label", b"0"), *((f"reject-{each}", b"0") for each in REJECT)]),
        Record(b"7e12", '{"price": 1.10, "town": "שלום", "price": 1e999}'.encode(), []),
        Record(b"", b"1.10", []),
        Record(b"nested", NESTED, [("label", NESTED * 100), *[("n" * 500, NESTED)] * 300]),
    ]
    produce(broker.bootstrap, topics["input"], sent)
    with serving(config, Access()) as port:
        yield topics["input"], Asking(port)


def page_of(ask, offset, bytes_max=PAGE_BYTES_MAX):
    """Return the page of a record, which the browser may not take for anything but text."""
    topic, asking = ask
    code, page = asking(f"/p/p/record/{values.encoded_key(f'{topic}/0@{offset}')}")
    assert code == 200
    assert "<script>alert" not in page
    assert len(page) < bytes_max
    assert "script-src 'self'" in asking.answer.headers["content-security-policy"]
    assert asking.answer.headers["x-content-type-options"] == "nosniff"
    return page


def test_script_in_key_header_and_value_is_text(ask):
    assert page_of(ask, 0).count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 4


def test_large_values_are_cut(ask):
    assert "the first 4,096 of 900,000 bytes" in page_of(ask, 1)


def test_binary_payloads_are_shown_as_bytes(ask):
    page = page_of(ask, 2)
    assert "bytes, 2,048 bytes" in page
    assert "0001 0203" in page
    assert "\x00" not in page


def test_what_nests_too_deep_for_json_is_text(ask):
    assert "[[[[" in page_of(ask, 3)


def test_a_sender_s_headers_make_no_reject_of_an_input_record(ask):
    page = page_of(ask, 4)
    assert "reject-reason" in page
    assert "Rejected as" not in page


def test_json_is_shown_as_it_is_written(ask):
    page = page_of(ask, 5)
    shown = ("&#34;price&#34;: 1.10,", "&#34;town&#34;: &#34;שלום&#34;", "&#34;price&#34;: 1e999")
    assert all(each in page for each in shown)
    assert "<code>7e12</code>" in page
    assert "<small>text, 4 bytes</small>" in page_of(ask, 6)


@pytest.mark.parametrize("key", [b"\xff\x00\x1b[2J", b"7e12", b"spoof"])
def test_a_key_of_the_list_is_found_by_what_is_shown(ask, key):
    topic, asking = ask
    shown = values.key_shown(key)
    page = asking(f"/p/p/records?topic={topic}")[1]
    assert f"<td>{shown}</td>" in page
    code, found = asking(f"/p/p/records?topic={topic}&key={quote(shown)}")
    assert (code, "1 records" in found) == (200, True)
    assert "<td>(empty)</td>" in page


def test_the_list_of_them_is_small(ask):
    topic, asking = ask
    code, page = asking(f"/p/p/records?topic={topic}")
    assert (code, "8 records" in page) == (200, True)
    assert "<script>alert" not in page
    assert len(page) < PAGE_BYTES_MAX


def test_many_headers_of_nested_json_are_cut(ask):
    assert "and 201 headers more" in page_of(ask, 7, 5 * PAGE_BYTES_MAX)


def test_long_labels_are_cut_in_lanes(ask):
    code, page = ask[1](f"/p/p/channel/{values.encoded_key(b'nested')}")
    assert (code, "[[…" in page) == (200, True)
    assert len(page) < PAGE_BYTES_MAX
