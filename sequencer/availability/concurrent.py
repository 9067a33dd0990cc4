"""One availability word that many threads reserve in and publish to.

Source: catkit2 pull request 426 (TryReserve, TryReserveNext, TryMakeAvailable, GetBegin, GetEnd).
Each method is a loop around one transition of `word` and a compare-and-swap.
"""

from __future__ import annotations

from sequencer.availability.atomic import AtomicWord, Word
from sequencer.availability.word import (
    BITMAP,
    BITS,
    ID_MAX,
    Result,
    begin,
    end,
    floor,
    frontier,
    is_available,
    make_available,
    reserve,
    reserve_next,
    tracked_ids,
)


class Availability:
    """One availability word for many threads: each method is a CAS loop over one transition.

    ``word`` is the value to start from, ``window`` the ring's capacity where it is below 16,
    ``first`` the topic's lowest id: by default 0, or, while nothing is reserved, what the first
    reservation makes it. ``cell`` replaces the atomic word (one in shared memory, say) and
    ``origin`` the atomic word beside it (``first`` plus one; 0 until it is known); what is given
    in their place is then not used.

    >>> availability = Availability(word=10 << 16 | 0b10101)  # the text's example
    >>> [i for i in range(10) if availability.is_available(i)]
    [5, 7, 9]
    >>> availability.begin, availability.end, availability.frontier
    (5, 10, 0)
    >>> joined = Availability()
    >>> joined.try_reserve(1000), joined.try_reserve_next(), joined.try_reserve(999)
    (True, 1001, False)
    """

    __slots__ = ("_cell", "_origin", "window")

    def __init__(
        self,
        word: int = 0,
        window: int = BITS,
        cell: Word | None = None,
        *,
        first: int | None = None,
        origin: Word | None = None,
    ) -> None:
        if not 1 <= window <= BITS:
            raise ValueError(f"window is {window}; it must lie in 1 … {BITS}")
        if first is not None and not 0 <= first <= ID_MAX:
            raise ValueError(f"first is {first}; ids lie in 0 … {ID_MAX}")
        self.window = window
        self._cell = AtomicWord(word) if cell is None else cell
        if first is None and self._cell.load():
            first = 0
        self._origin = AtomicWord(0 if first is None else first + 1) if origin is None else origin
        known = self._origin.load()
        if known:
            self._cell.compare_exchange(0, known - 1 << BITS)
        if not 0 <= self._cell.load() < 2**64:
            raise ValueError(f"word is {self._cell.load()}; it must fit into 64 bits")
        value, lowest = self._look()
        if value >> BITS < lowest:
            raise ValueError(f"word {value:#x} has reserved ids, all of them below first, {lowest}")
        tracked = tracked_ids(value >> BITS, window, lowest)
        if (value & BITMAP) >> tracked:
            raise ValueError(
                f"word {value:#x} marks ids as available that its {tracked} last ids do not have"
            )

    @property
    def word(self) -> int:
        """``last << 16 | bitmap``."""
        return self._cell.load()

    @property
    def first(self) -> int:
        """The topic's lowest id; 0 while nothing has said otherwise."""
        return self._look()[1]

    @property
    def last(self) -> int:
        """The next id to be assigned."""
        return self._look()[0] >> BITS

    @property
    def bitmap(self) -> int:
        """Bit k: whether ``last - 1 - k`` is available."""
        return self.word & BITMAP

    @property
    def begin(self) -> int:
        """The oldest available id; `end` where there is none."""
        word, first = self._look()
        return int(begin(word, self.window, first))

    @property
    def end(self) -> int:
        """The newest available id plus one."""
        word, first = self._look()
        return int(end(word, self.window, first))

    @property
    def frontier(self) -> int:
        """The lowest unpublished id."""
        word, first = self._look()
        return int(frontier(word, self.window, first))

    def is_available(self, message_id: int) -> bool:
        """Return whether ``message_id`` is published and still tracked by the bitmap."""
        return bool(is_available(self.word, _checked(message_id)))

    def was_published(self, message_id: int) -> bool:
        """Return whether ``message_id`` is available, or has left the bitmap, which takes that."""
        word, first = self._look()
        if first <= message_id < floor(word, self.window, first):
            return True
        return bool(is_available(word, _checked(message_id)))

    def preview(self, message_id: int | None = None) -> Result:
        """What :meth:`reserve` of this id, or of the next one, would say now. Changes nothing."""
        if message_id is None:
            word, first = self._look()
            return Result(reserve_next(word, self.window, first)[1])
        _, word, first = self._look_for(_checked(message_id))
        return Result(reserve(word, message_id, self.window, first)[1])

    def reserve(self, message_id: int) -> Result:
        """As `word.reserve`, on this word; the first one says where the topic begins."""
        while True:
            old, word, first = self._look_for(_checked(message_id))
            new, result = reserve(word, message_id, self.window, first)
            if new == word or self._cell.compare_exchange(old, new):
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
            old, first = self._look()
            new, result = reserve_next(old, self.window, first)
            if result == Result.EXHAUSTED:
                raise OverflowError(_exhausted(old >> BITS))
            if result == Result.FULL:
                return None
            if self._cell.compare_exchange(old, new):
                return old >> BITS

    def make_available(self, message_id: int) -> Result:
        """As `word.make_available`, on this word."""
        while True:
            old, first = self._look()
            new, result = make_available(old, _checked(message_id), self.window, first)
            if new == old or self._cell.compare_exchange(old, new):
                return Result(result)

    def try_make_available(self, message_id: int) -> bool:
        """Publish ``message_id``; True if this call did it, False if it was published before or
        is not reserved (:meth:`make_available` says which).
        """
        return self.make_available(message_id) is Result.DONE

    def _look(self) -> tuple[int, int]:
        """The word and `first`; 0 while that is not known."""
        word, origin = self._load()
        return word, max(0, origin - 1)

    def _look_for(self, message_id: int) -> tuple[int, int, int]:
        """The word that is there, and word and `first` that this reservation would start from."""
        word, origin = self._load()
        if origin or not self.window <= message_id <= ID_MAX:
            return word, word, max(0, origin - 1)
        return word, message_id << BITS, message_id

    def _load(self) -> tuple[int, int]:
        """The word and the origin, of one moment; without an origin nothing is reserved.

        The first reservation leaves the word alone to tell where the topic begins. Whoever comes
        next, to read or to change, writes that down before the word can change again.
        """
        while True:
            word = self._cell.load()
            origin = self._origin.load()
            if word and not origin:
                first_reserved = (word >> BITS) - 1
                origin = 1 + (first_reserved if first_reserved >= self.window else 0)
                self._origin.compare_exchange(0, origin)
            if word or origin <= 1:
                return word, origin
            # The topic was begun between the two looks.

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
