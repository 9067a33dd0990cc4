"""Fields of values in JSON: as the judge reads them, one by one, with Python's own means."""

import json
import random
import tracemalloc

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaming.settings.fields import json_steps
from streaming.values.texts import TEXT_BYTES_MAX, UNREADABLE, VALUE_BYTES_MAX, why_unreadable
from streaming.verify.values import in_json
from tests.seeds import examples, seeds

PATHS = ("$.a", "$.a.b", "$.a.b.c", "$.l[1]", "$['odd name']", "$", "$.a[0].b")
NAMES = ("a", "b", "c", "l", "odd name", "é", "")


def read(values, *paths):
    """What is read of each path: (whether something is there, its text), as the judge says it."""
    from streaming.values.json_values import read_json

    found = read_json(pa.array(values, pa.binary()), paths, [json_steps(each) for each in paths])
    return [
        [
            (True, None) if row in each.faults else (text is not None, text)
            for row, text in enumerate(each.texts.to_pylist())
        ]
        for each in found
    ]


def judged(values, path):
    return [in_json(value, json_steps(path)) for value in values]


def thing(rng, depth=0):
    kinds = [
        lambda: rng.choice([0, 7, -1, 2**63, 10**30, True, False, None, 1.5, -0.0]),
        lambda: rng.choice(["", "7", "K1", "é\u2028", 'a"b', "\\", "\U0001f600", "x\ty"]),
        lambda: {rng.choice(NAMES): thing(rng, depth + 1) for _ in range(rng.randrange(4))},
        lambda: [thing(rng, depth + 1) for _ in range(rng.randrange(4))],
    ]
    return rng.choice(kinds if depth < 4 else kinds[:2])()


def written(rng):
    """A value as some serializer would write it, or what a fault made of it."""
    text = json.dumps(thing(rng), ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 2]))
    value = bytearray(text.encode())
    if rng.random() < 0.1:
        value[:0] = b"\0\0\0\0\7"
    for _ in range(rng.choice([0, 0, 1, 3])):
        at = rng.randrange(len(value) + 1)
        change = rng.randrange(3)
        if change == 0:
            value[at : at + 1] = bytes([rng.randrange(256)])
        elif change == 1:
            del value[at : at + rng.randrange(4)]
        else:
            value[at:at] = rng.choice([b'"', b"{", b"]", b"\\ud800", b"\\u0061", b",", b" ", b"0"])
    return bytes(value) if rng.random() < 0.97 else None


@pytest.mark.parametrize("seed", seeds(4, 200))
def test_any_bytes_are_read_as_the_judge_reads_them(seed):
    rng = random.Random(seed)
    values = [written(rng) for _ in range(400)]
    for path in PATHS:
        assert read(values, path) == [judged(values, path)], path
    together = read(values, *PATHS[1:3], PATHS[4])
    assert together == [judged(values, path) for path in (*PATHS[1:3], PATHS[4])]
    cut = rng.randrange(len(values))
    parts = zip(read(values[:cut], "$.a.b"), read(values[cut:], "$.a.b"), strict=True)
    assert [a + b for a, b in parts] == read(values, "$.a.b"), "any split gives the same"


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=5))
def test_bytes_that_nobody_wrote(values):
    assert read(values, "$.a", "$.b") == [judged(values, "$.a"), judged(values, "$.b")]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b'{"a": 7}', (True, b"7")),
        (b'{"a": "K1"}', (True, b"K1")),
        (b'{"a": 12345678901234567890123}', (True, b"12345678901234567890123")),
        (b'{"a": 1, "a": 2}', (True, b"2")),
        (b'{"\\u0061": "\\u00e9"}', (True, "é".encode())),
        (b'\0\0\0\0\x09{"a": 7}', (True, b"7")),
        (b'{"a": null}', (False, None)),
        (b'{"b": 7}', (False, None)),
        (b"[7]", (False, None)),
        (None, (False, None)),
        (b"", (True, None)),
        (b'{"a": 7.0}', (True, None)),
        (b'{"a": true}', (True, None)),
        (b'{"a": {"b": 7}}', (True, None)),
        (b'{"a": 7, "b": "\xff"}', (True, None)),
        (b'{"a": 7, "b": "\\ud800"}', (True, None)),
        (b'{"a": 7} {"a": 8}', (True, None)),
        (b'{"a": NaN}', (True, None)),
        (b'\xef\xbb\xbf{"a": 7}', (True, None)),
    ],
)
def test_what_is_there(value, said):
    assert read([value, value], "$.a") == [[said, said]] == [judged([value, value], "$.a")]


def deep(levels):
    return b'{"a": 7, "b": ' + b"[" * levels + b"]" * levels + b"}"


@pytest.mark.parametrize(
    ("fits", "too_much"),
    [
        (deep(511), deep(512)),
        (b'{"a": "%s"}' % (b"x" * TEXT_BYTES_MAX), b'{"a": "%s"}' % (b"x" * (TEXT_BYTES_MAX + 1))),
        (
            b'{"a": 7}' + b" " * (VALUE_BYTES_MAX - 8),
            b'{"a": 7}' + b" " * (VALUE_BYTES_MAX - 7),
        ),
        (deep(1), deep(100_000)),
    ],
    ids=["depth", "text", "value", "much-too-deep"],
)
def test_limits(fits, too_much):
    values = [fits, too_much, b'{"a": "next"}']
    (found,) = read(values, "$.a")
    assert [there for there, _ in found] == [True, True, True]
    assert found[0][1] is not None
    assert found[1:] == [(True, None), (True, b"next")]
    assert found == judged(values, "$.a")


def test_a_label_that_cannot_be_read_says_why():
    from streaming.values.json_values import read_json

    (found,) = read_json(pa.array([b"}", b'{"a": 7}', None], pa.binary()), ["$.a"], [("a",)])
    labels = found.as_labels(found.faults).to_pylist()
    assert labels == [UNREADABLE + b"the value is not JSON", b"7", None]
    assert [*map(why_unreadable, labels)] == ["the value is not JSON", None, None]


@pytest.mark.parametrize("end", [b"", b"!"])
def test_what_is_wrong_does_not_depend_on_how_deep_the_stack_is(end):
    """Of what is nested too deep and no JSON either."""
    from streaming.values.json_values import DEPTH_MAX, TOO_DEEP, read_json

    def below(calls, value):
        if calls:
            return below(calls - 1, value)
        (found,) = read_json(pa.array([value], pa.binary()), ["$.a"], [("a",)])
        return found.faults

    for levels in (DEPTH_MAX, 940, 980):
        value = b'{"a":' + b"[" * levels + end
        assert [below(calls, value) for calls in (0, 30, 60, 90)] == [{0: TOO_DEEP}] * 4


def test_brackets_in_strings_are_none():
    """Also in one that does not end; and each escaped quote in it is looked at once."""
    embedded = b'{"a": "' + b'[{\\"k\\":' * 40_000
    values = [b'"%s"' % (b"[" * 600), b'"' + b"[" * 600, embedded, b'{"a": 7}']
    (found,) = read(values, "$.a")
    assert [text for _, text in found] == [None, None, None, b"7"]


@pytest.mark.parametrize("character", [b"x", rb"\n"])
def test_long_strings_take_little_memory(character):
    """A regular expression that keeps where it may go back takes 60 times the value, or more."""
    string = b'"' + character * 2_000_000 + b'"'
    value = b'{"a": 7, "b": ' + string + b', "c": [' + b"[]," * 600 + b"1]}"
    tracemalloc.start()
    try:
        assert read([value], "$.a") == [[(True, b"7")]] == [judged([value], "$.a")]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 25 * len(value)
