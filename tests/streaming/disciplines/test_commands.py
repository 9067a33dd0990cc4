"""What commands of all disciplines have in common, at each limit and one past it."""

import json

import pytest

from streaming.disciplines.commands import (
    COMMAND_BYTES_MAX,
    ID_BYTES_MAX,
    NAME_BYTES_MAX,
    CommandRefused,
    name_fault,
    own_id,
    read_object,
)

SURROGATE = json.loads('"\\ud800"')  # JSON can write it, UTF-8 cannot


def padded(size):
    """A JSON object of so many bytes."""
    bare = json.dumps({"pad": ""}).encode()
    return json.dumps({"pad": "x" * (size - len(bare))}).encode()


def test_an_object_is_read():
    assert read_object(b' {"op": "add", "n": [1]} ') == {"op": "add", "n": [1]}
    assert read_object('{"\u00e4": "\u2603"}'.encode()) == {"ä": "☃"}
    assert len(read_object(padded(COMMAND_BYTES_MAX))["pad"]) < COMMAND_BYTES_MAX


@pytest.mark.parametrize(
    "value",
    [None, b"", b"{", b"[]", b"3", b"null", b'"op"', b"\xff", b"[" * 100_000,
     padded(COMMAND_BYTES_MAX + 1)],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
def test_what_is_no_object_is_refused(value):
    with pytest.raises(CommandRefused) as refused:
        read_object(value)
    assert refused.value.reason == "unreadable"
    too_large = value is not None and len(value) > COMMAND_BYTES_MAX
    assert refused.value.detail == (
        f"no JSON object of at most {COMMAND_BYTES_MAX} bytes" if too_large else "no JSON object"
    )


def test_an_id_is_a_text_that_fits_into_an_answer():
    assert own_id({"id": "any text"}) == "any text"
    assert own_id({"id": ""}) == ""
    assert own_id({"id": "x" * ID_BYTES_MAX}) == "x" * ID_BYTES_MAX
    for none in ({}, {"id": None}, {"id": 3}, {"id": ["x"]}, {"id": SURROGATE}):
        assert own_id(none) is None, none
    assert own_id({"id": "x" * (ID_BYTES_MAX + 1)}) is None
    assert own_id({"id": "ä" * (ID_BYTES_MAX // 2 + 1)}) is None, "bytes count, not characters"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("A", ""),
        ("a b,c\x00", ""),
        ("x" * NAME_BYTES_MAX, ""),
        ("x" * (NAME_BYTES_MAX + 1), f"is longer than {NAME_BYTES_MAX} bytes"),
        ("ä" * (NAME_BYTES_MAX // 2 + 1), f"is longer than {NAME_BYTES_MAX} bytes"),
        (SURROGATE, "is not valid Unicode"),
        ("", "is not text, or empty"),
        (None, "is not text, or empty"),
        (7, "is not text, or empty"),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_names(name, told):
    assert name_fault(name) == told
