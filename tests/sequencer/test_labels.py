import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.custom_labels import CustomLabels
from sequencer.labels import LABEL_MAX, CyclicLabels, LinearLabels, parse_numbers


def binary(*texts):
    return pa.array(texts, pa.binary())


def naive_number(text):
    good = 1 <= len(text) <= 19 and all(byte in b"0123456789" for byte in text)
    return int(text) if good and int(text) <= LABEL_MAX else -1


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=22),
            st.text("0123456789", max_size=21).map(str.encode),
            st.integers(LABEL_MAX - 2, LABEL_MAX + 2).map(lambda n: str(n).encode()),
        )
    ),
    st.integers(0, 3),
)
def test_numbers_are_those_of_the_contract(texts, offset):
    array = binary(*texts)[offset:]  # a slice must not read its parent's bytes
    assert parse_numbers(array).tolist() == [naive_number(text) for text in texts[offset:]]


@pytest.mark.parametrize(
    "labels",
    [
        LinearLabels(),
        LinearLabels(7, 3),
        CyclicLabels(8, 6),
        CyclicLabels(16, 3, 6),
        CyclicLabels(2**62, 5, 2**61 - 1),
        CustomLabels("a0", lambda t: f"a{int(t[1:]) + 1}"),
        CustomLabels("0", lambda t: str((int(t) + 1) % 7)),
    ],
)
def test_position_counts_applications_of_next(labels):
    label, texts = labels.initial, []
    for position in range(40):
        assert labels.at(position) == label
        assert labels.position(label, 50) == position % (labels.cycle or 1000)
        texts.append(str(label).encode())
        label = labels.next(label)
    want = np.arange(40) % (labels.cycle or 1000)
    assert labels.positions(binary(*texts), 50).tolist() == want.tolist()


@given(st.integers(-3, 70), st.integers(0, 40), st.integers(1, 40))
def test_one_label_has_the_position_that_it_has_among_many(number, start, step):
    text = binary(str(number).encode())
    sequences = [LinearLabels(start, step)]
    if math.gcd(step, 64) <= 16:
        sequences.append(CyclicLabels(64, start, step))
    for labels in sequences:
        assert labels.position(np.int64(number)) == labels.positions(text)[0]


def test_labels_off_the_sequence_have_no_position():
    assert LinearLabels(10, 5).positions(binary(b"9", b"11", b"5", b"")).tolist() == [-1] * 4
    assert CyclicLabels(16, 3, 6).positions(binary(b"16", b"4", b"x")).tolist() == [-1] * 3
    custom = CustomLabels("a", lambda t: chr(ord(t) + 1))
    assert custom.positions(binary(b"A", b"", b"\xff", b"aa")).tolist() == [-1] * 4
    assert [LinearLabels(10, 5).position(x) for x in (9, 11, 5, -5, 2**63, "10", None)] == [-1] * 7
    assert [CyclicLabels(16, 3, 6).position(x) for x in (16, 4, -1, 19, "3")] == [-1] * 5
    assert [custom.position(x) for x in ("A", "", "aa", 0, [])] == [-1] * 5


def test_a_finite_sequence_ends_and_linear_labels_end_at_the_largest_number():
    def following(label):
        if label == "c":
            raise StopIteration
        return chr(ord(label) + 1)

    assert CustomLabels("a", following).positions(binary(b"c", b"d"), 99).tolist() == [2, -1]
    with pytest.raises(OverflowError):
        LinearLabels(step=2).next(LABEL_MAX - 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearLabels(-1), "start is -1"),
        (lambda: LinearLabels(0, 0), "step is 0"),
        (lambda: CyclicLabels(3), "modulus is 3"),
        (lambda: CyclicLabels(8, 8), "start is 8"),
        (lambda: CyclicLabels(8, 0, 4), "only 2 labels"),
        (lambda: CustomLabels("a", lambda _: "b"), "repeats 'b'"),
        (lambda: CustomLabels("a", lambda _: "a"), "cycle of 1"),
        (lambda: CustomLabels("a", lambda _: 1), "must be text"),
    ],
)
def test_sequences_that_cannot_work_are_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
