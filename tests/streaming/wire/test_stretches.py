"""Records of large batches are found in stretches, side by side: the same as one by one."""

import random

import numpy as np
import pytest

from streaming.wire import record_columns
from streaming.wire.record_columns import _in_one, _places, _stretches, _walked
from tests.seeds import seeds

STRETCH = 8
NONE = b"\x01"


def varint(number):
    number = number << 1 ^ number >> 63
    found = b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def encoded(value, nth, ms=0):
    """A record without a key and headers."""
    size = NONE if value is None else varint(len(value)) + value
    rest = b"\0" + varint(ms) + varint(nth) + NONE + size + b"\0"
    return varint(len(rest)) + rest


VALUES = {
    "text": lambda rng, _: b'{"flight": "UA%d"}' % rng.randrange(10**9) * rng.randrange(1, 4),
    "zeros": lambda rng, _: bytes(rng.randrange(200)),
    "bytes": lambda rng, _: rng.randbytes(rng.randrange(150)),
    "high": lambda rng, _: b"\xff" * rng.randrange(60) + bytes(2),
    "none": lambda _, __: None,
    "large": lambda rng, _: rng.randbytes(rng.choice([3, 40, 3_000])),
    # What looks like records with the offsets that come next.
    "records": lambda rng, nth: b"".join(
        encoded(b"x" * rng.randrange(90), nth + n) for n in (1, 2)
    ),
}


def body(rng, kind, count, *, gaps=False):
    value, nth, data = VALUES[kind], 0, b""
    for _ in range(count):
        data += encoded(value(rng, nth), nth, rng.choice([0, 5, 10**6]))
        nth += 1 + gaps * (rng.random() < 0.1)
    return data


def given(rng, bodies):
    """The bodies one behind the other, with something between them, and how they are asked for."""
    data, parts = b"", []
    for each, count in bodies:
        data += rng.randbytes(rng.randrange(70))
        parts.append((len(data), len(each), count))
        data += each
    return data, *(np.array(column) for column in zip(*parts, strict=True))


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("seed", seeds(6, 300))
def test_they_are_those_that_are_found_one_by_one(seed, kind, monkeypatch):
    monkeypatch.setattr(record_columns, "STRETCH", STRETCH)
    rng = random.Random(f"{seed} {kind}")
    counts = [rng.choice([1, 5, 40, 300]) for _ in range(rng.randrange(1, 5))]
    bodies = [(body(rng, kind, count, gaps=seed % 3 == 2), count) for count in counts]
    data, begin, sizes, records = given(rng, bodies)
    at, size = _places(data, begin, sizes, records)
    expected_at, expected_size = _walked(data, begin, records)
    assert at.tolist() == expected_at.tolist()
    assert size.tolist() == expected_size.tolist()


@pytest.mark.parametrize("kind", ["text", "bytes"])
def test_most_stretches_are_guessed(kind):
    rng = random.Random(1)
    data, begin, sizes, records = given(rng, [(body(rng, kind, 5_000), 5_000)] * 4)
    guessed, counts, is_first = _stretches(data, begin, begin + sizes, records)
    assert counts.sum() == 20_000
    assert np.flatnonzero(is_first).tolist() == np.searchsorted(guessed, begin).tolist()
    assert len(counts) > 0.7 * 20_000 / record_columns.STRETCH
    at, _ = _walked(data, begin, records)
    begins = set((at - 1).tolist()) | set((at - 2).tolist())
    assert set(guessed.tolist()) <= begins


@pytest.mark.parametrize("seed", seeds(40, 2_000))
def test_damaged_ones_are_found_as_one_by_one(seed, monkeypatch):
    monkeypatch.setattr(record_columns, "STRETCH", STRETCH)
    rng = random.Random(seed)
    count = rng.choice([40, 300])
    data = bytearray(body(rng, rng.choice([*VALUES]), count))
    for _ in range(rng.randrange(1, 4)):
        data[rng.randrange(len(data))] = rng.choice([0, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    whole, begin = _in_one([record_columns.Body(bytes(data), 0, len(data))])
    asked = (np.array([len(data)]), np.array([count]))
    try:
        expected = _walked(whole, begin, asked[1])
    except (ValueError, IndexError) as error:
        with pytest.raises(type(error)):
            _places(whole, begin, *asked)
    else:
        for mine, one_by_one in zip(_places(whole, begin, *asked), expected, strict=True):
            assert mine.tolist() == one_by_one.tolist()


def fake(nth):
    """What looks like a record with this offset, behind which the next one would stand."""
    return encoded(b"", nth)[:-3] + b"\x01\x01\x00" + encoded(b"", nth + 1)


@pytest.mark.parametrize("deltas", [(900, 1), (900, 1, 2), (1, 2, 900, 3)])
def test_whatever_is_guessed_all_stretches_have_the_batchs_number(deltas, monkeypatch):
    """Else hostile values would have a walk take a step for each pair of records."""
    monkeypatch.setattr(record_columns, "STRETCH", STRETCH)
    rng = random.Random(1)
    values = (b"".join(fake(rng.choice(deltas)) for _ in range(9)) for _ in range(1_000))
    data = b"".join(encoded(value, nth) for nth, value in enumerate(values))
    whole, begin, records = data, np.array([0]), np.array([1_000])
    _, counts, _ = _stretches(whole, begin, np.array([len(data)]), records)
    assert (counts > 0).all()
    assert counts.sum() == 1_000
    at, _ = _places(whole, begin, np.array([len(data)]), records)
    assert at.tolist() == _walked(whole, begin, records)[0].tolist()


def test_nothing_is_guessed_where_it_would_take_memory():
    """One large record beside many small ones; values in which every third byte may begin one."""
    rng = random.Random(1)
    many = body(rng, "text", 20_000)
    large = encoded(rng.randbytes(len(many) // 2), 0)
    both = given(rng, [(large, 1), (many, 20_000)])
    hostile = b"".join(encoded(b"\x80\x01\0" * 400, nth) for nth in range(2_000))
    for data, begin, sizes, records in (both, given(rng, [(hostile, 2_000)])):
        guessed, _, _ = _stretches(data, begin, begin + sizes, records)
        assert guessed.tolist() == begin.tolist()
