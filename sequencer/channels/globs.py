"""Globs over the text of channels: which channels a rule is for.

`*` stands for any text (also for none), `?` for one character, `[abc]` and `[a-z]` for one of
these, `[!abc]` for one that is none of these; everything else for itself. A key that is no UTF-8
has no text and matches nothing.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

ANY = {"*": ".*", "?": "."}


def matches(keys: pa.Array, glob: str) -> NDArray[np.bool_]:
    """Return which keys (binary) match a glob; ValueError if it is not a valid glob."""
    found = _found(_texts(keys), glob)
    whole: NDArray[np.bool_] = pc.fill_null(found, pa.scalar(value=False)).to_numpy(
        zero_copy_only=False
    )
    return whole


def _found(texts: pa.Array, glob: str) -> pa.Array:
    try:
        return pc.match_substring_regex(texts, pattern=_expression(glob))
    except pa.ArrowInvalid as error:
        raise ValueError(f"{glob!r} is no pattern: {error}") from None


def _texts(keys: pa.Array) -> pa.Array:
    """Return the keys as text, null where one is not valid UTF-8."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(key) for key in keys.to_pylist()], pa.string())


def _text(key: bytes) -> str | None:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return None


def _expression(glob: str) -> str:
    """Return the glob as a regular expression of RE2, whose time does not depend on the pattern."""
    parts = []
    at = 0
    while at < len(glob):
        one = glob[at]
        at += 1
        end = glob.find("]", at + 1 + glob.startswith("!", at)) if one == "[" else -1
        if end >= 0:
            negated = glob.startswith("!", at)
            inner = re.sub(r"([\\^\[\]])", r"\\\1", glob[at + negated : end])
            parts.append(f"[{'^' if negated else ''}{inner}]")
            at = end + 1
        else:
            parts.append(ANY.get(one) or re.escape(one))
    return rf"\A(?s:{''.join(parts)})\z"


def first_match(keys: pa.Array, globs: tuple[str, ...]) -> NDArray[np.int64]:
    """Return for each key 1 + the number of the first glob that it matches; 0 for none."""
    found = np.zeros(len(keys), dtype=np.int64)
    for number, glob in reversed([*enumerate(globs, 1)]) if len(keys) else ():
        found[matches(keys, glob)] = number
    return found


def first_match_of(key: bytes, globs: tuple[str, ...]) -> int:
    """Return the same for one key, without pandas, which Arrow imports for scalars and numpy."""
    ends = np.array([0, len(key)], np.int32)
    one = pa.BinaryArray.from_buffers(pa.binary(), 1, [None, *map(pa.py_buffer, (ends, key))])
    texts = _texts(one)
    is_match = [_found(texts, glob)[0].as_py() for glob in globs]  # each has to be valid
    return is_match.index(True) + 1 if True in is_match else 0
