"""The frame that serializers put around a value: a byte 0, and the number of its schema.

    byte     0      1 … 4           5 …
    what     0      schema's id     the value; of Protobuf behind which message it is

Confluent's wire format; ids are big-endian.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.arrow.columns import Bools, Int64s
from streaming.arrow.pieces import ends_and_bytes
from streaming.terminal import printable
from streaming.values.schemas import Schemas
from streaming.values.texts import TOO_LARGE, VALUE_BYTES_MAX, Texts, no_scalar, shortened

FRAME_BYTES = 5
ID_MAX = 2**31 - 1
"""Registries count with 32 bits and a sign."""
WHY_CHARACTERS_MAX = 200
"""Of the reason why a schema cannot be used: it may quote the schema, and each reject has it."""

UNFRAMED = "the value does not begin with a schema's id"


def schema_ids(values: pa.Array) -> tuple[Int64s, Bools]:
    """Return the schema id of each value (binary), and which values have a frame."""
    ends, data = ends_and_bytes(values)
    begins = ends[:-1].astype(np.int64)
    is_framed = np.diff(ends) >= FRAME_BYTES
    signs = np.frombuffer(data, np.uint8)
    found = np.zeros((FRAME_BYTES, len(begins)), np.int64)
    for offset in range(FRAME_BYTES):
        found[offset, is_framed] = signs[begins[is_framed] + offset]
    is_framed &= found[0] == 0
    ids = (found[1] << 24) | (found[2] << 16) | (found[3] << 8) | found[4]
    return ids, is_framed


class Malformed(ValueError):  # noqa: N818  (reads as what it is)
    """The bytes are not what the schema says."""


class NoScalar(ValueError):  # noqa: N818  (likewise)
    """The field is neither a whole number nor text."""


class BadSchema(ValueError):  # noqa: N818  (likewise)
    """No value can be read with the schema; the text says why."""


Reader: TypeAlias = Callable[[bytes], bytes | None]
"""From a framed value to the text of a field; None where it is not there."""


def read_framed(
    values: pa.Array, path: str, schemas: Schemas, reader_of: Callable[[str], Reader]
) -> Texts:
    """Return the texts of a field of framed values (binary); SchemasNeeded.

    ``reader_of`` returns what reads values of a packed schema, or raises BadSchema.
    """
    rows = values.to_pylist()
    ids, is_framed = schema_ids(values)
    too_large = pc.binary_length(values).fill_null(0).to_numpy() > VALUE_BYTES_MAX
    is_value = values.is_valid().to_numpy(zero_copy_only=False)
    faults = dict.fromkeys(np.flatnonzero(is_value & ~is_framed).tolist(), UNFRAMED)
    faults |= dict.fromkeys(np.flatnonzero(is_value & too_large).tolist(), TOO_LARGE)
    looked_into = is_value & is_framed & ~too_large
    present = np.unique(ids[looked_into]).tolist()
    schemas.require(number for number in present if number <= ID_MAX)
    texts: list[bytes | None] = [None] * len(rows)
    for number in present:
        where = np.flatnonzero(looked_into & (ids == number)).tolist()
        if number not in schemas.known:
            faults |= dict.fromkeys(where, f"the registry does not know schema {number}")
            continue
        try:
            read = reader_of(schemas.known[number])
        except BadSchema as error:
            why = printable(str(error)[:WHY_CHARACTERS_MAX], kept="")
            faults |= dict.fromkeys(where, f"schema {number} cannot be used: {why}")
            continue
        for row in where:
            try:
                texts[row] = read(rows[row])
            except NoScalar:
                faults[row] = no_scalar(path)
            except (Malformed, IndexError, UnicodeDecodeError):
                faults[row] = f"the value is not what schema {number} says"
    return shortened(pa.array(texts, pa.binary()), faults, path)
