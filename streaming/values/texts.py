"""Texts that were read out of values, row by row, and why others could not be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

VALUE_BYTES_MAX = 16 * 2**20
"""Larger values are not looked into."""
TEXT_BYTES_MAX = 10_000
"""Longer texts are neither labels nor channels."""

TOO_LARGE = f"the value has more than {VALUE_BYTES_MAX:,} bytes"

UNREADABLE = b"\xff"
"""What stands in place of a label that could not be read begins with this byte, and goes on with
the reason. No text in UTF-8 has it, so no label is equal to it."""


class Texts(NamedTuple):
    """A text of each row (binary): null where the value has none, or where it could not be read.

    ``faults``: of the latter rows, why.
    """

    texts: pa.Array
    faults: Mapping[int, str]

    def as_labels(self, faults: Mapping[int, str]) -> pa.Array:
        """Return the texts, with UNREADABLE and the reason where ``faults`` has one."""
        if not faults:
            return self.texts
        marks = pa.array(
            [
                None if (why := faults.get(row)) is None else UNREADABLE + why.encode()
                for row in range(len(self.texts))
            ],
            pa.binary(),
        )
        return pc.coalesce(marks, self.texts)


def why_unreadable(label: bytes | None) -> str | None:
    """Return why a label could not be read; None where it could."""
    if label is None or not label.startswith(UNREADABLE):
        return None
    return label[len(UNREADABLE) :].decode(errors="replace")


def no_scalar(path: str) -> str:
    """Return the fault of a field that is neither a number nor text."""
    return f"{path} is neither a whole number nor text"


def shortened(texts: pa.Array, faults: Mapping[int, str], path: str) -> Texts:
    """Return texts without those that are too long, which are faults."""
    lengths = pc.binary_length(texts).fill_null(0).to_numpy()
    if not len(lengths) or lengths.max() <= TEXT_BYTES_MAX:
        return Texts(texts, faults)
    too_long = lengths > TEXT_BYTES_MAX
    why = f"{path} has more than {TEXT_BYTES_MAX:,} bytes"
    none = pa.scalar(None, pa.binary())
    found = dict.fromkeys(np.flatnonzero(too_long).tolist(), why)
    return Texts(pc.if_else(pa.array(too_long), none, texts), {**faults, **found})
