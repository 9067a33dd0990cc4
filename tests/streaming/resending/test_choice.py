"""Which rejects are chosen, and what is sent back of them."""

import pytest

from streaming.kafka.reading import Record
from streaming.resending.choice import Condition, Reject


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("key = a'b", True),
        ("key != a'b", False),
        ("key='a'b'", True),
        ("header('n') > 9", True),
        ("header('n') = 10", True),
        ("header('n') < 10", False),
        ("header('other') = 10", False),
        ("header('other') != 10", True),
        ("header('other') > 1", False),
        ("key > 1", False),
        ("topic = t", True),
        ("partition = 3", True),
        ("offset <= 5", True),
        ("timestamp >= 1970-01-01T00:00:01Z", True),
        ("timestamp > 1000", False),
        ("timestamp < 1970-01-01", False),
    ],
)
def test_conditions(text, holds):
    headers = (("n", b"7"), ("n", b"10"))
    it = Reject("late", ("t", 3, 5), b"a'b", None, headers, 1000)
    assert Condition.read(text).holds(it) is holds


def test_headers_behind_those_of_every_reject_are_left_out_too():
    def rejected(*more):
        names = ("reject-reason", "reject-topic", "reject-partition", "reject-offset")
        values = (b"too-large", b"in", b"1", b"7")
        headers = (("own", b"1"), *zip(names, values, strict=True), *more)
        return Record("rejects", 0, 3, 5, b"k", b"k", headers)

    assert Reject.of(rejected(), "").headers == (("own", b"1"),)
    said = Reject.of(rejected(("reject-detail", b"MESSAGE_TOO_LARGE")), "")
    assert (said.headers, said.origin) == ((("own", b"1"),), ("in", 1, 7))
    placed = Reject.of(rejected(("reject-after", b"9/4"), ("reject-gap", b"p:gap:k:9:0:5")), "")
    assert (placed.headers, placed.after) == ((("own", b"1"),), b"9/4")
    assert Condition.read("gap = p:gap:k:9:0:5").holds(placed)
    assert Condition.read("after != '9/3'").holds(placed)
    assert not Condition.read("gap = p:gap:k:9:0:5").holds(said)
    cut = ("reject-detail", b"so; without its value (7 bytes), as the rejects' topic refuses that")
    assert Reject.of(rejected(cut), "") is None
