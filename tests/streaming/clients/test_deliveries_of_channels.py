"""What a reader of a channel pipeline's output takes for a notice, and what for a message."""

import pytest

from streaming.clients.deliveries import ChangeNotice, Delivery, read

RECORD = {"topic": "p.out", "partition": 0, "offset": 7, "key": b"k", "value": None, "timestamp": 1}
COUNTS = [("sequence", b"3"), ("incarnation", b"5")]


@pytest.mark.parametrize(
    ("word", "detail"),
    [
        (b"gap", b"no JSON"),
        (b"gap", None),
        (b"gap", b"[" * 100_000),
        (b"gap", b"[]"),
        (b"news", b"{}"),
        (b"\xff", b"{}"),
        (None, b"{}"),
    ],
)
def test_a_message_with_the_headers_of_a_notice_is_a_message(word, detail):
    own = [("notice", word), ("detail", detail)]
    found = read("channel", RECORD, [*own, *COUNTS], "")
    assert type(found) is Delivery
    assert (found.headers, found.sequence) == (own, 3)


@pytest.mark.parametrize("word", ["gap", "fin", "epoch", "reset"])
def test_a_notice(word):
    found = read("channel", RECORD, [("notice", word.encode()), ("detail", b"{}"), *COUNTS], "")
    assert isinstance(found, ChangeNotice)
    assert (found.word, found.detail) == (word, {})
