"""Columns as Python objects, which librdkafka wants for each record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, pairwise, repeat
from typing import Any

import pyarrow as pa


def each(column: pa.Array, convert: Callable[[pa.Array], list[Any]]) -> list[Any]:
    """The column as Python objects; what a dictionary has once is converted once, and shared."""
    if not pa.types.is_dictionary(column.type):
        return convert(column)
    known = convert(column.dictionary)
    return [known[at] for at in column.indices.to_pylist()]


def texts(column: pa.Array) -> list[bytes | None]:
    """Texts and numbers as bytes."""
    if not pa.types.is_binary(column.type):
        column = column.cast(pa.string()).cast(pa.binary())
    return objects(column)


def objects(column: pa.Array) -> list[Any]:
    """Python objects of a column; by way of numpy, which is several times faster than to_pylist."""
    return list(column.to_numpy(zero_copy_only=False).tolist())


def with_headers(
    headers: pa.Array, added: list[tuple[str, list[bytes | None]]]
) -> Sequence[list[tuple[str, bytes | None]] | None]:
    """Each row's own headers, then the added ones, as lists of pairs."""
    if headers.null_count == len(headers) and not added:
        return [None] * len(headers)
    tails: Iterable[Any]
    if any(None in values for _, values in added):
        columns = [[() if v is None else ((name, v),) for v in values] for name, values in added]
        tails = (list(chain.from_iterable(column)) for column in zip(*columns, strict=True))
    elif added:
        tails = zip(*([(name, value) for value in values] for name, values in added), strict=True)
    else:
        tails = repeat((), len(headers))
    own = each(headers, _pairs)
    return [[*pairs, *tail] for pairs, tail in zip(own, tails, strict=True)]


def _pairs(headers: pa.Array) -> list[list[tuple[str, bytes | None]]]:
    """The headers of each row; none where they are null."""
    first, stop = (headers.offsets[0].as_py(), headers.offsets[-1].as_py())
    array = headers.values.slice(first, stop - first)
    names = array.field("key").dictionary_encode()
    known = names.dictionary.to_pylist()
    keys = [known[code] for code in names.indices.to_pylist()]
    pairs = list(zip(keys, objects(array.field("value")), strict=True))
    bounds = (headers.offsets.to_numpy() - first).tolist()
    if not headers.null_count:
        return [pairs[a:b] for a, b in pairwise(bounds)]
    null = headers.is_null().to_pylist()
    return [[] if none else pairs[a:b] for (a, b), none in zip(pairwise(bounds), null, strict=True)]
