"""Columns of integers that grow in files, for the judges' notes on each record.

What is small stays in memory; a column of more than `MEMORY_BYTES` lies in a file without a
name in `TMPDIR`, which is gone when the process ends, however it ends. It is mapped into memory;
`paced` gives its pages back now and then: the kernel keeps them as long as it has room, or writes
them to the disk. `streaming.verify.logs` keeps values.

```
Column   7 3 9 ...              one list of numbers, by position
Strand   a: 7 3|9   b: 1 2|8    one of many lists: blocks in a column, the end in memory
Index    code -> number         numbers by 64-bit code: open addressing in a column
```
"""

from __future__ import annotations

import mmap
import os
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import IO, TypeVar
from weakref import WeakSet

from streaming.errors import SequencerError

MEMORY_BYTES = 2**20
"""A column that is larger lies in a file."""
BLOCK = 128
"""Numbers of a strand that are written together."""
CHUNK = 2**14
"""Numbers of a column that are read together."""
WIDTH = 8
"""Bytes of a number."""
PAIR = Struct("@qq")
NEAR = 8
"""Pairs of an index that are read together."""
PACE = 10_000
"""Items between two times that pages are given back."""

Item = TypeVar("Item")
Progress = Callable[[str, int, int], None]
"""Gets what is being done, how much of it is done, and of how much."""


def temporary_file() -> IO[bytes]:
    """Return a file without a name."""
    return tempfile.TemporaryFile(prefix="sequencer-verify-")


@contextmanager
def room_is_said() -> Iterator[None]:
    """Say what to do where a file cannot be written."""
    try:
        yield
    except OSError as error:
        where = tempfile.gettempdir()
        raise SequencerError(
            f"What was read of the topics cannot be kept in {where}: {error.strerror}.",
            "Nothing was judged.",
            "It needs some 200 bytes there for each delivery; TMPDIR names another folder.",
        ) from error


class Column:
    """Numbers of 64 bits, appended and changed by position.

    ``view``: their memory and room for more, of use until the column grows. ``file``: where they
    lie, if not in memory.
    """

    __slots__ = ("__weakref__", "_count", "_map", "file", "view")

    def __init__(self, count: int = 0, value: int = 0) -> None:
        self.file: IO[bytes] | None = None
        self._map: mmap.mmap | None = None
        self.view = memoryview(bytearray(32 * WIDTH)).cast("q")
        self._count = 0
        if count:
            self.reserve(count)
            self._count = count
        if value:
            block = array("q", [value]) * CHUNK
            for start in range(0, count, CHUNK):
                self._write(start, memoryview(block)[: count - start])

    def reserve(self, count: int) -> None:
        """Make room for this many numbers; room that was never used has zeros."""
        if count <= len(self.view):
            return
        size = max(count, len(self.view) * 3 // 2) * WIDTH
        before = self.view
        if size <= MEMORY_BYTES:
            self.view = memoryview(bytearray(size)).cast("q")
        else:
            is_new = self.file is None
            with room_is_said():
                file = self.file = self.file or temporary_file()
                if hasattr(os, "posix_fallocate"):  # a page without room ends the process
                    os.posix_fallocate(file.fileno(), 0, size)
                else:
                    file.truncate(size)
                self._map = mmap.mmap(file.fileno(), size)
            self.view = memoryview(self._map).cast("q")
            _mapped.add(self)
            if not is_new:
                return
        self.view[: len(before)] = before

    def append(self, number: int) -> None:
        """Add a number behind the others."""
        if self._count == len(self.view):
            self.reserve(self._count + 1)
        self.view[self._count] = number
        self._count += 1

    def extend(self, numbers: array[int]) -> int:
        """Add numbers behind the others; return the position of the first one."""
        start, end = self._count, self._count + len(numbers)
        self.reserve(end)
        self.view[start:end] = memoryview(numbers)
        self._count = end
        return start

    def copy(self) -> Column:
        """Return another column with the same numbers."""
        other = Column(self._count)
        for start in range(0, self._count, CHUNK):
            other._write(start, self.view[start : min(start + CHUNK, self._count)])
        return other

    def _write(self, start: int, numbers: memoryview) -> None:
        self.view[start : start + len(numbers)] = numbers
        self.give_back()

    def give_back(self) -> None:
        """Let go of the pages that lie in a file: they are mapped again when they are needed."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)

    def __len__(self) -> int:
        return self._count

    def part(self, start: int, end: int) -> list[int]:
        """Return the numbers from ``start`` to ``end``."""
        return self.view[start : min(end, self._count)].tolist()

    def __getitem__(self, at: int) -> int:
        if not 0 <= at < self._count:
            raise IndexError(at)
        return self.view[at]

    def __setitem__(self, at: int, number: int) -> None:
        self.view[at] = number

    def __iter__(self) -> Iterator[int]:
        for start in range(0, self._count, CHUNK):
            yield from self.part(start, start + CHUNK)


_mapped: WeakSet[Column] = WeakSet()


def paced(
    items: Iterable[Item], what: str = "", total: int = 0, progress: Progress = lambda *_: None
) -> Iterator[Item]:
    """Yield the items of a long loop; now and then give pages back, and say how far it is."""
    for count, item in enumerate(items, 1):
        yield item
        if count % PACE == 0:
            for column in [*_mapped]:
                column.give_back()
            if what:
                progress(what, count, total)


class Strand:
    """Numbers that are appended; full blocks of them lie in a ``store`` that many strands share."""

    __slots__ = ("_blocks", "_rest", "_store")

    def __init__(self, store: Column) -> None:
        self._store = store
        self._blocks = array("q")
        self._rest = array("q")

    def append(self, number: int) -> None:
        """Add a number behind the others."""
        rest = self._rest
        rest.append(number)
        if len(rest) == BLOCK:
            self._blocks.append(self._store.extend(rest))
            self._rest = array("q")

    def part(self, start: int, end: int) -> Iterator[int]:
        """Yield the numbers from ``start`` to ``end``."""
        for block in range(start // BLOCK, -(-end // BLOCK)):
            first = block * BLOCK
            yield from self._block(block)[max(0, start - first) : end - first]

    def index(self, number: int) -> int:
        """Return the first position of a number; ValueError where it has none."""
        for block in range(len(self._blocks) + 1):
            numbers = self._block(block)
            if number in numbers:
                return block * BLOCK + numbers.index(number)
        raise ValueError(number)

    def _block(self, block: int) -> list[int]:
        if block == len(self._blocks):
            return self._rest.tolist()
        start = self._blocks[block]
        return self._store.part(start, start + BLOCK)

    def __len__(self) -> int:
        return len(self._blocks) * BLOCK + len(self._rest)

    def __getitem__(self, at: int) -> int:
        block, within = divmod(at if at >= 0 else at + len(self), BLOCK)
        if block == len(self._blocks):
            return self._rest[within]
        return self._store[self._blocks[block] + within]

    def __iter__(self) -> Iterator[int]:
        for block in range(len(self._blocks) + 1):
            yield from self._block(block)


class Index:
    """Numbers by code, a 64-bit hash; open addressing: pairs of a code and the number plus 1.

    What lies in a file is read and written without its pages being mapped: they lie anywhere, and
    each would bring others with it.
    """

    __slots__ = ("_count", "_mask", "_pairs")

    def __init__(self) -> None:
        self._count = 0
        self._mask = 15
        self._pairs = Column(32)

    def get(self, code: int) -> int:
        """Return the number of a code, or -1."""
        return self._find(code)[1] - 1

    def put(self, code: int, number: int) -> None:
        """Give a code a number, 0 or above."""
        slot, before = self._find(code)
        file = self._pairs.file
        if file is None:
            pairs = self._pairs.view
            pairs[2 * slot], pairs[2 * slot + 1] = code, number + 1
        else:
            os.pwrite(file.fileno(), PAIR.pack(code, number + 1), slot * PAIR.size)
        self._count += not before
        if self._count * 3 > self._mask * 2:
            self._rebuild()

    def _find(self, code: int) -> tuple[int, int]:
        """Return the slot of a code and its number plus 1; else the slot for it and 0."""
        file, slot = self._pairs.file, code & self._mask
        if file is None:
            return self._find_in_memory(code)
        while True:
            near = os.pread(file.fileno(), NEAR * PAIR.size, slot * PAIR.size)
            for other, number in PAIR.iter_unpack(near):
                if not number or other == code:
                    return slot, number
                slot = (slot + 1) & self._mask

    def _find_in_memory(self, code: int) -> tuple[int, int]:
        pairs, mask = self._pairs.view, self._mask
        slot = code & mask
        while (number := pairs[2 * slot + 1]) and pairs[2 * slot] != code:
            slot = (slot + 1) & mask
        return slot, number

    def _rebuild(self) -> None:
        before = self._pairs
        self._mask = 2 * self._mask + 1
        self._pairs = Column(2 * (self._mask + 1))
        pairs = self._pairs.view
        for start in range(0, len(before), CHUNK):
            found = before.part(start, start + CHUNK)
            for code, number in zip(found[::2], found[1::2], strict=True):
                if number:
                    slot, _ = self._find_in_memory(code)
                    pairs[2 * slot], pairs[2 * slot + 1] = code, number
            before.give_back()
            self._pairs.give_back()
