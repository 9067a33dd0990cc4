"""The availability word: which of the last 16 messages are there, in 64 bits.

Source: catkit2 pull request 426, "Allow out-of-order submission of messages in
LocalMessageBroker": ``word = last << 16 | bitmap``. ``last`` (48 bits) is the next id to be
assigned; bit k of the bitmap says whether message ``last - 1 - k`` is available. Both change in
one compare-and-swap, so every transition here is a pure function ``word -> (word', result)``. The
same functions take Python integers (a CAS loop, :class:`Availability`) and numpy arrays of
``uint64`` (one word for each of many channels, broadcast with the ids).

Where the text is silent:

* *The 17th id.* An id that leaves the bitmap unpublished could never become available, its
  publisher would learn of it too late or never, and two publishers would own one slot of the ring.
  One bit for each id cannot tell "being written" from "given up". So a reservation that would push
  an unpublished id out is refused (``FULL``; nothing changes), which the *Try* in the names
  allows. It follows that every id below the bitmap has been published, and that an id without a
  publisher is given up by making it available with a mark in its slot that says so.
* *A ring smaller than 16* has a ``window`` of its capacity: the ids that share a slot never stand
  in the bitmap together. A larger ring has the window 16; what lies below it was all published.
* *Ids given from outside* (reserve 5 before 4): ``last`` moves past both; 4 can be reserved until
  it is published. The word has no bit for "claimed": who reserves by id sees to it that one id has
  one publisher. More than ``window - 1`` ids ahead of ``last`` is ``FULL``.
* *48 bits* give the ids 0 … 2**48 - 2; the next one is ``EXHAUSTED`` and nothing wraps.
* *begin and end* are the oldest available id and the newest plus one; with nothing available both
  are the lowest id that can still become available, so ``end`` never goes back.
"""

from __future__ import annotations

import enum
from typing import Any, TypeAlias

import numpy as np

from sequencer.availability.atomic import AtomicWord, Word

BITS = 16
"""Bits of the bitmap, and the widest window."""

ID_MAX = 2**48 - 2

_BITMAP = (1 << BITS) - 1

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
    """The id is below the bitmap: it was published, and its place belongs to others."""
    UNRESERVED = 4
    """The id is at or above ``last``: reserve it first."""
    EXHAUSTED = 5
    """The id does not fit into 48 bits."""


def reserve(word: Whole, message_id: Whole, window: int = BITS) -> tuple[Whole, Whole]:
    """Reserve an id given from outside; ``last`` becomes at least ``message_id + 1``.

    Returns the new word and the :class:`Result`: DONE, FULL, DUPLICATE, OLD or EXHAUSTED (for
    arrays: their codes, uint64). ``window`` lies in 1 … 16.
    """
    last, bitmap = word >> BITS, word & _BITMAP
    ahead = message_id >= last
    moves = _choose(ahead, message_id, last) - last + 1
    step = _choose(moves <= window, moves, window)
    leaving = _unpublished(last, bitmap, window) >> (window - step)
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
                behind >= window, Result.OLD, _choose(there == 1, Result.DUPLICATE, Result.DONE)
            ),
        ),
    )
    moved = ((last + moves) << BITS) | ((bitmap << step) & _ones(window))
    return _choose(ahead & (result == Result.DONE), moved, word), result


def reserve_next(word: Whole, window: int = BITS) -> tuple[Whole, Whole]:
    """Reserve ``word >> 16``, the next id: as :func:`reserve` of it (DONE, FULL or EXHAUSTED)."""
    return reserve(word, word >> BITS, window)


def make_available(word: Whole, message_id: Whole, window: int = BITS) -> tuple[Whole, Whole]:
    """Publish a reserved id: set its bit.

    Returns the new word and the :class:`Result`: DONE, DUPLICATE, OLD or UNRESERVED.
    """
    last, bitmap = word >> BITS, word & _BITMAP
    reserved = message_id < last
    behind = last - _choose(reserved, message_id + 1, last)
    tracked = behind < window
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
    """Whether the bit of ``message_id`` is set (bool, or an array of bool)."""
    last, bitmap = word >> BITS, word & _BITMAP
    reserved = message_id < last
    behind = last - _choose(reserved, message_id + 1, last)
    return reserved & ((bitmap >> behind) & 1 == 1)


def floor(word: Whole, window: int = BITS) -> Whole:
    """The lowest id that the bitmap speaks of; all below it were published."""
    last = word >> BITS
    return last - _choose(last < window, last, window)


def begin(word: Whole, window: int = BITS) -> Whole:
    """The oldest available id; :func:`end` where there is none."""
    last, bitmap = word >> BITS, word & _BITMAP
    return _choose(bitmap == 0, floor(word, window), last - _length(bitmap))


def end(word: Whole, window: int = BITS) -> Whole:
    """The newest available id plus one; where there is none, :func:`floor`."""
    last, bitmap = word >> BITS, word & _BITMAP
    lowest = _length(bitmap & ((bitmap ^ _BITMAP) + 1))
    return _choose(bitmap == 0, floor(word, window), last + 1 - lowest)


def frontier(word: Whole, window: int = BITS) -> Whole:
    """The lowest unpublished id: everything below it is, or was, available."""
    last, bitmap = word >> BITS, word & _BITMAP
    return last - _length(_unpublished(last, bitmap, window))


class Availability:
    """One availability word for many threads: each method is a CAS loop over one transition.

    ``word`` is the value to start from, ``window`` the ring's capacity where it is below 16.
    ``cell`` replaces the atomic word (one in shared memory, say); ``word`` is then not used.

    >>> availability = Availability(word=10 << 16 | 0b10101)  # the text's example
    >>> [i for i in range(10) if availability.is_available(i)]
    [5, 7, 9]
    >>> availability.begin, availability.end, availability.frontier
    (5, 10, 0)
    """

    __slots__ = ("_cell", "window")

    def __init__(self, word: int = 0, window: int = BITS, cell: Word | None = None) -> None:
        if not 1 <= window <= BITS:
            raise ValueError(f"window is {window}; it must lie in 1 … {BITS}")
        self.window = window
        self._cell = AtomicWord(word) if cell is None else cell
        value = self._cell.load()
        if not 0 <= value < 2**64:
            raise ValueError(f"word is {value}; it must fit into 64 bits")
        known = min(value >> BITS, window)
        if (value & _BITMAP) >> known:
            raise ValueError(
                f"word {value:#x} marks ids as available that its {known} last ids do not have"
            )

    @property
    def word(self) -> int:
        """``last << 16 | bitmap``."""
        return self._cell.load()

    @property
    def last(self) -> int:
        """The next id to be assigned."""
        return self.word >> BITS

    @property
    def bitmap(self) -> int:
        """Bit k: whether ``last - 1 - k`` is available."""
        return self.word & _BITMAP

    @property
    def begin(self) -> int:
        """The oldest available id; ``end`` where there is none."""
        return int(begin(self.word, self.window))

    @property
    def end(self) -> int:
        """The newest available id plus one."""
        return int(end(self.word, self.window))

    @property
    def frontier(self) -> int:
        """The lowest unpublished id."""
        return int(frontier(self.word, self.window))

    def is_available(self, message_id: int) -> bool:
        """Whether ``message_id`` is published and still tracked by the bitmap."""
        return bool(is_available(self.word, _checked(message_id)))

    def reserve(self, message_id: int) -> Result:
        """As :func:`reserve`, on this word."""
        while True:
            old = self._cell.load()
            new, result = reserve(old, _checked(message_id), self.window)
            if new == old or self._cell.compare_exchange(old, new):
                return Result(result)

    def try_reserve(self, message_id: int) -> bool:
        """Reserve ``message_id``; False if it is taken, old, or unpublished ids are in the way.

        OverflowError where it does not fit into 48 bits; the word is unchanged then.
        """
        result = self.reserve(message_id)
        if result is Result.EXHAUSTED:
            raise OverflowError(_exhausted(message_id))
        return result is Result.DONE

    def try_reserve_next(self) -> int | None:
        """Reserve the next id and return it; None where unpublished ids are in the way.

        OverflowError where the ids are used up; the word is unchanged then.
        """
        while True:
            old = self._cell.load()
            new, result = reserve_next(old, self.window)
            if result == Result.EXHAUSTED:
                raise OverflowError(_exhausted(old >> BITS))
            if result == Result.FULL:
                return None
            if self._cell.compare_exchange(old, new):
                return old >> BITS

    def make_available(self, message_id: int) -> Result:
        """As :func:`make_available`, on this word."""
        while True:
            old = self._cell.load()
            new, result = make_available(old, _checked(message_id), self.window)
            if new == old or self._cell.compare_exchange(old, new):
                return Result(result)

    def try_make_available(self, message_id: int) -> bool:
        """Publish ``message_id``; True if this call did it, False if it was published before or
        is not reserved (:meth:`make_available` says which).
        """
        return self.make_available(message_id) is Result.DONE

    def __repr__(self) -> str:
        return f"Availability(last={self.last}, bitmap={self.bitmap:#018b}, window={self.window})"


def _exhausted(message_id: int) -> str:
    return (
        f"id {message_id} does not fit into 48 bits: ids end at {ID_MAX}. Nothing was reserved; "
        "start a new topic"
    )


def _checked(message_id: int) -> int:
    if message_id < 0:
        raise ValueError(f"id is {message_id}; ids are 0 or more")
    return message_id


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


def _unpublished(last: Any, bitmap: Any, window: int) -> Any:
    """Bits of the reserved ids in the window that are not available."""
    return bitmap ^ _ones(_choose(last < window, last, window))


def _length(bits: Any) -> Any:
    """Number of the highest set bit plus one; 0 where none is set (at most 16 bits)."""
    if not isinstance(bits, np.ndarray):
        return bits.bit_length()
    return np.frexp(bits.astype(np.float64))[1].astype(np.uint64)
