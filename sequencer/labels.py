"""Label sequences: the initial label and the next function that both ends of a channel agree on.

Source: "In-Order Message Delivery" (2011), section "Message Labels": a linear sequence for the
simple case, a cyclic one "significantly longer than the expected number of messages in transit"
for unbounded series, or any other sequence given by its next function.

Every sequence numbers its labels: the *position* of the initial label is 0, that of its successor
1, and so on. The ordering code works on positions only. Linear positions grow for ever; in a
sequence that repeats, positions are counted within one ``cycle``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Int64s = NDArray[np.int64]

LABEL_MAX = 2**63 - 1
"""The highest number that a label, an epoch or a sequence can have (contract: ``[0-9]{1,19}``)."""

DIGITS_MAX = 19

L = TypeVar("L", bound=Hashable)


class Labels(Protocol):
    """What the ordering code needs of a label sequence."""

    @property
    def cycle(self) -> int | None:
        """Number of labels after which the sequence repeats; None where it never does."""

    def positions(
        self, texts: pa.Array, horizon: int | Int64s = 0, near: int | Int64s = 0
    ) -> Int64s:
        """Positions of the labels in ``texts`` (binary, no nulls); -1 where it is not a label.

        Sequences that are known by their next function alone look at the first ``horizon`` labels
        at least, and at those that lie ``horizon`` before and behind the position ``near`` (both
        for all texts, or for each); others ignore both.
        """

    def position(self, label: object, horizon: int = 0, near: int = 0) -> int:
        """Position of one label (an integer, or text for custom labels); -1 where it is none."""

    @property
    def searched(self) -> bool:
        """Whether labels are recognised by walking the sequence, so only near the frontier."""

    def at(self, position: int) -> int | str:
        """The label at ``position``, as it appears in events (a number, or text)."""


class LinearLabels:
    """``start``, ``start + step``, ``start + 2 * step``, … up to 2**63 - 1.

    >>> labels = LinearLabels(start=10, step=5)
    >>> labels.initial, labels.next(10), labels.at(3)
    (10, 15, 25)
    """

    __slots__ = ("initial", "step")
    cycle: None = None
    searched = False

    def __init__(self, start: int = 0, step: int = 1) -> None:
        if not 0 <= start <= LABEL_MAX:
            raise ValueError(f"start is {start}; it must lie in 0 … {LABEL_MAX}")
        if not 1 <= step <= LABEL_MAX:
            raise ValueError(f"step is {step}; it must lie in 1 … {LABEL_MAX}")
        self.initial = start
        self.step = step

    def next(self, label: int) -> int:
        """The label after ``label``; OverflowError past 2**63 - 1, where the sequence ends."""
        if label > LABEL_MAX - self.step:
            raise OverflowError(f"no label follows {label}: labels end at {LABEL_MAX}")
        return label + self.step

    def positions(
        self,
        texts: pa.Array,
        horizon: int | Int64s = 0,  # noqa: ARG002  (see Labels)
        near: int | Int64s = 0,  # noqa: ARG002
    ) -> Int64s:
        """As in :class:`Labels`; below `start` or off the step is -1."""
        numbers = parse_numbers(texts)
        ahead = numbers - self.initial
        off = (numbers < 0) | (ahead < 0) | (ahead % self.step != 0)
        return np.where(off, np.int64(-1), ahead // self.step)

    def position(self, label: object, horizon: int = 0, near: int = 0) -> int:  # noqa: ARG002  (see Labels)
        """As in :class:`Labels`; below `start` or off the step is -1."""
        number = _whole(label)
        steps, off = divmod(number - self.initial, self.step)
        return -1 if off or steps < 0 or number > LABEL_MAX else steps

    def at(self, position: int) -> int:
        """``start + position * step``."""
        return self.initial + position * self.step


class CyclicLabels:
    """``start``, ``start + step``, … modulo ``modulus``, then the same again.

    The cycle has ``modulus / gcd(step, modulus)`` labels. Which of two positions comes first is a
    question of distance (serial number arithmetic, RFC 1982): up to half the cycle ahead is ahead.

    >>> labels = CyclicLabels(modulus=8, start=6)
    >>> labels.initial, labels.next(7), labels.at(3), labels.cycle
    (6, 0, 1, 8)
    """

    __slots__ = ("_common", "_inverse", "cycle", "initial", "modulus", "step")
    searched = False

    def __init__(self, modulus: int, start: int = 0, step: int = 1) -> None:
        if not 4 <= modulus <= 2**62:
            raise ValueError(f"modulus is {modulus}; it must lie in 4 … 2**62")
        if not 0 <= start < modulus:
            raise ValueError(f"start is {start}; it must lie in 0 … modulus - 1 = {modulus - 1}")
        if not 1 <= step < modulus:
            raise ValueError(f"step is {step}; it must lie in 1 … modulus - 1 = {modulus - 1}")
        self._common = math.gcd(step, modulus)
        self.cycle = modulus // self._common
        if self.cycle < 4:
            raise ValueError(
                f"step {step} and modulus {modulus} share the factor {self._common}, so only "
                f"{self.cycle} labels exist; a cycle needs 4 or more"
            )
        self._inverse = pow(step // self._common, -1, self.cycle)
        self.initial = start
        self.step = step
        self.modulus = modulus

    def next(self, label: int) -> int:
        """The label after ``label``."""
        return (label + self.step) % self.modulus

    def positions(
        self,
        texts: pa.Array,
        horizon: int | Int64s = 0,  # noqa: ARG002  (see Labels)
        near: int | Int64s = 0,  # noqa: ARG002
    ) -> Int64s:
        """As in :class:`Labels`, in 0 … cycle - 1; ``modulus`` or more, or off the step, is -1."""
        numbers = parse_numbers(texts)
        ahead = np.where(numbers >= 0, numbers - self.initial, 0) % self.modulus
        off = (numbers < 0) | (numbers >= self.modulus) | (ahead % self._common != 0)
        steps = ahead // self._common
        if self._inverse != 1:
            steps = _multiply_modulo(steps, self._inverse, self.cycle)
        return np.where(off, np.int64(-1), steps)

    def position(self, label: object, horizon: int = 0, near: int = 0) -> int:  # noqa: ARG002  (see Labels)
        """As in :class:`Labels`, in 0 … cycle - 1; ``modulus`` or more, or off the step, is -1."""
        number = _whole(label)
        steps, off = divmod((number - self.initial) % self.modulus, self._common)
        if off or not 0 <= number < self.modulus:
            return -1
        return steps * self._inverse % self.cycle

    def at(self, position: int) -> int:
        """The label at ``position`` of any turn of the cycle."""
        return (self.initial + (position % self.cycle) * self.step) % self.modulus


def label_or_none(labels: Labels, position: int) -> int | str | None:
    """The label at ``position``; None behind the last one of a sequence that ends."""
    try:
        return labels.at(position)
    except IndexError:
        return None


def parse_numbers(texts: pa.Array) -> Int64s:
    """Numbers of ASCII decimal texts (binary array without nulls); -1 where one is not a number.

    A number is ``[0-9]{1,19}`` and at most 2**63 - 1; leading zeros are allowed.
    """
    count = len(texts)
    if count == 0:
        return np.zeros(0, dtype=np.int64)
    if not pa.types.is_large_binary(texts.type):
        texts = texts.cast(pa.large_binary())
    _, offsets_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[texts.offset : texts.offset + count + 1]
    lengths = np.diff(offsets)
    good = (lengths >= 1) & (lengths <= DIGITS_MAX)
    digits_max = int(lengths[good].max(initial=0))
    if digits_max == 0:
        return np.full(count, -1, dtype=np.int64)
    data = np.frombuffer(data_buffer, np.uint8)
    powers = np.arange(digits_max)  # from the right
    here = powers < lengths[:, None]
    digits = data[np.where(here, offsets[1:, None] - 1 - powers, 0)] - np.uint8(48)
    digits[~here] = 0
    good &= (digits <= 9).all(axis=1)  # what is no digit wraps past 9
    values = digits @ np.uint64(10) ** powers.astype(np.uint64)
    good &= values <= np.uint64(LABEL_MAX)
    return np.where(good, values, np.uint64(0)).astype(np.int64) - ~good


def _whole(label: object) -> int:
    """The label as an integer (numpy's too); -1 where it is none."""
    try:
        return operator.index(label)  # type: ignore[arg-type]
    except TypeError:
        return -1


def _multiply_modulo(values: Int64s, factor: int, modulus: int) -> Int64s:
    """``values * factor % modulus`` without overflow."""
    if factor * modulus <= LABEL_MAX:
        return values * factor % modulus
    return np.array([value * factor % modulus for value in values.tolist()], dtype=np.int64)
