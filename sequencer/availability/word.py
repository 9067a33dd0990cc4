"""The availability word: which of the last 16 messages are there, in 64 bits.

Source: catkit2 pull request 426, "Allow out-of-order submission of messages in
LocalMessageBroker": ``word = last << 16 | bitmap``. ``last`` (48 bits) is the next id to be
assigned; bit k of the bitmap says whether message ``last - 1 - k`` is available. Both change in
one compare-and-swap, so every transition here is a pure function ``word -> (word', result)``. The
same functions take Python integers (a CAS loop, `concurrent.Availability`) and numpy arrays of
``uint64`` (one word for each of many channels, broadcast with the ids).

Where the text is silent:

* *The 17th id.* An id that leaves the bitmap unpublished could never become available, its
  publisher would learn of it too late or never, and two publishers would own one slot of the ring.
  One bit for each id cannot tell "being written" from "given up". So a reservation that would push
  an unpublished id out is refused (``FULL``; nothing changes), which the *Try* in the names
  allows. It follows that every id below the bitmap has been published, and that an id without a
  publisher is given up by making it available with a mark in its slot that says so.
* *Joining in mid-stream.* Ids begin at 0 unless a ``first`` is given. A fresh
  `concurrent.Availability` learns it from its first reservation: an id inside the window leaves
  room for the lower ones; one beyond it (1000, say) can only mean a stream that runs already, and
  is the first. Whatever lies below ``first`` is ``OLD``: nobody waits for it. One bit for each id
  cannot tell "below the first" from "being written", so ``first`` stands beside the word; it
  follows from the word that the first reservation makes, and is written down before the next.
* *A ring smaller than 16* has a ``window`` of its capacity: the ids that share a slot never stand
  in the bitmap together. A larger ring has the window 16; what lies below it was all published.
* *Ids given from outside* (reserve 5 before 4): ``last`` moves past both; 4 can be reserved until
  it is published. The word has no bit for "claimed": who reserves by id sees to it that one id has
  one publisher. More than ``window - 1`` ids ahead of ``last`` is ``FULL`` (but for a join).
* *48 bits* give the ids 0 … 2**48 - 2; the next one is ``EXHAUSTED`` and nothing wraps.
* *begin and end* are the oldest available id and the newest plus one; with nothing available both
  are the lowest id that can still become available, so ``end`` never goes back.
"""

from __future__ import annotations

import enum
from typing import Any, TypeAlias

import numpy as np

BITS = 16
"""Bits of the bitmap, and the widest window."""

ID_MAX = 2**48 - 2

BITMAP = (1 << BITS) - 1
"""The bits of a word that are its bitmap."""

Whole: TypeAlias = Any
"""A Python integer, or an array of ``uint64`` (of one shape with, or broadcast to, the others)."""


class Result(enum.IntEnum):
    """What a transition did. Only ``DONE`` changes the word, or means that it need not change."""

    DONE = 0
    FULL = 1
    """Unpublished ids are in the way; publish them and try again."""
    DUPLICATE = 2
    """The id is available already."""
    OLD = 3
    """Below the bitmap (it was published, and others have its slot), or below ``first``."""
    UNRESERVED = 4
    """The id is at or above ``last``: reserve it first."""
    EXHAUSTED = 5
    """The id does not fit into 48 bits."""


def reserve(
    word: Whole, message_id: Whole, window: int = BITS, first: Whole = 0
) -> tuple[Whole, Whole]:
    """Reserve an id given from outside; ``last`` becomes at least ``message_id + 1``.

    Returns the new word and the :class:`Result`: DONE, FULL, DUPLICATE, OLD or EXHAUSTED (for
    arrays: their codes, uint64). ``window`` lies in 1 … 16. ``first`` is the topic's lowest id; a
    word in which nothing was reserved is ``first << 16``.
    """
    last, bitmap = word >> BITS, word & BITMAP
    ahead = message_id >= last
    moves = _choose(ahead, message_id, last) - last + 1
    step = _choose(moves <= window, moves, window)
    leaving = _unpublished(last, bitmap, window, first) >> (window - step)
    free = (moves <= window) & (leaving == 0)
    behind = last - _choose(ahead, last, message_id + 1)
    there = (bitmap >> behind) & 1
    result = _choose(
        message_id > ID_MAX,
        Result.EXHAUSTED,
        _choose(
            ahead,
            _choose(free, Result.DONE, Result.FULL),
            _choose(
                (behind >= window) | (message_id < first),
                Result.OLD,
                _choose(there == 1, Result.DUPLICATE, Result.DONE),
            ),
        ),
    )
    moved = ((last + moves) << BITS) | ((bitmap << step) & _ones(window))
    return _choose(ahead & (result == Result.DONE), moved, word), result


def reserve_next(word: Whole, window: int = BITS, first: Whole = 0) -> tuple[Whole, Whole]:
    """Reserve ``word >> 16``, the next id: as :func:`reserve` of it (DONE, FULL or EXHAUSTED)."""
    return reserve(word, word >> BITS, window, first)


def make_available(
    word: Whole, message_id: Whole, window: int = BITS, first: Whole = 0
) -> tuple[Whole, Whole]:
    """Publish a reserved id: set its bit.

    Returns the new word and the :class:`Result`: DONE, DUPLICATE, OLD or UNRESERVED.
    """
    last, bitmap = word >> BITS, word & BITMAP
    reserved = message_id < last
    behind = last - _choose(reserved, message_id + 1, last)
    tracked = (behind < window) & (message_id >= first)
    bit = _choose(tracked, behind, 0)
    result = _choose(
        reserved,
        _choose(
            tracked,
            _choose((bitmap >> bit) & 1 == 1, Result.DUPLICATE, Result.DONE),
            Result.OLD,
        ),
        Result.UNRESERVED,
    )
    return _choose(result == Result.DONE, word | (_one(word) << bit), word), result


def is_available(word: Whole, message_id: Whole) -> Whole:
    """Return whether the bit of ``message_id`` is set (bool, or an array of bool)."""
    last, bitmap = word >> BITS, word & BITMAP
    reserved = message_id < last
    behind = last - _choose(reserved, message_id + 1, last)
    return reserved & ((bitmap >> behind) & 1 == 1)


def floor(word: Whole, window: int = BITS, first: Whole = 0) -> Whole:
    """The lowest id that the bitmap speaks of; all from ``first`` up to it were published."""
    last = word >> BITS
    return last - tracked_ids(last, window, first)


def begin(word: Whole, window: int = BITS, first: Whole = 0) -> Whole:
    """The oldest available id; :func:`end` where there is none."""
    last, bitmap = word >> BITS, word & BITMAP
    return _choose(bitmap == 0, floor(word, window, first), last - _length(bitmap))


def end(word: Whole, window: int = BITS, first: Whole = 0) -> Whole:
    """The newest available id plus one; where there is none, :func:`floor`."""
    last, bitmap = word >> BITS, word & BITMAP
    lowest = _length(bitmap & ((bitmap ^ BITMAP) + 1))
    return _choose(bitmap == 0, floor(word, window, first), last + 1 - lowest)


def frontier(word: Whole, window: int = BITS, first: Whole = 0) -> Whole:
    """The lowest unpublished id: everything from ``first`` up to it is, or was, available."""
    last, bitmap = word >> BITS, word & BITMAP
    return last - _length(_unpublished(last, bitmap, window, first))


def _choose(condition: Any, yes: Any, no: Any) -> Any:
    """``yes`` where the condition holds, else ``no``: for one integer, or element by element."""
    if isinstance(condition, np.ndarray):
        return np.where(condition, np.asarray(yes, np.uint64), np.asarray(no, np.uint64))
    return yes if condition else no


def _one(word: Any) -> Any:
    return np.uint64(1) if isinstance(word, np.ndarray) else 1


def _ones(count: Any) -> Any:
    """A mask of ``count`` (0 … 16) low bits."""
    return (_one(count) << count) - _one(count)


def tracked_ids(last: Any, window: int, first: Any) -> Any:
    """Return how many ids the bitmap speaks of."""
    return _choose(last - first < window, last - first, window)


def _unpublished(last: Any, bitmap: Any, window: int, first: Any) -> Any:
    """Bits of the reserved ids in the window that are not available."""
    return bitmap ^ _ones(tracked_ids(last, window, first))


def _length(bits: Any) -> Any:
    """Number of the highest set bit plus one; 0 where none is set (at most 16 bits)."""
    if not isinstance(bits, np.ndarray):
        return bits.bit_length()
    return np.frexp(bits.astype(np.float64))[1].astype(np.uint64)
