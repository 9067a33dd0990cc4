"""Values that the judges keep of records: in memory while they are few, else in files.

See `streaming.verify.columns` for numbers, and for where the files lie.
"""

from __future__ import annotations

import marshal
import os
from collections.abc import Iterator
from typing import IO, Any, Generic, TypeVar

from streaming.verify.columns import MEMORY_BYTES, Column, Index, room_is_said, temporary_file

Name = TypeVar("Name", bound=tuple[Any, ...])

KNOWN_MAX = 100_000
"""Different values that are kept in memory."""
HEAD = 4
"""Bytes of the length before a value."""


class Log:
    """Values that `marshal` can write, by the position that `append` returned."""

    __slots__ = ("_file", "_rest", "_written")

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._rest = bytearray()
        self._written = 0

    def append(self, value: Any) -> int:
        """Write a value behind the others; return its position."""
        position = self._written + len(self._rest)
        data = marshal.dumps(value)
        self._rest += len(data).to_bytes(HEAD)
        self._rest += data
        if len(self._rest) > MEMORY_BYTES:
            with room_is_said():
                self._file = self._file or temporary_file()
                self._file.write(self._rest)
                self._file.flush()
            self._written += len(self._rest)
            self._rest = bytearray()
        return position

    def __getitem__(self, position: int) -> Any:
        return next(self._from(position))[1]

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Yield each value behind its position."""
        return self._from(0)

    def _from(self, position: int) -> Iterator[tuple[int, Any]]:
        while position < self._written + len(self._rest):
            size = int.from_bytes(self._bytes(position, HEAD))
            yield position, marshal.loads(self._bytes(position + HEAD, size))  # noqa: S302  (ours)
            position += HEAD + size

    def _bytes(self, position: int, size: int) -> bytes:
        if position >= self._written or self._file is None:
            start = position - self._written
            return bytes(self._rest[start : start + size])
        return os.pread(self._file.fileno(), size, position)


class Values:
    """Values of which many are equal: the first `KNOWN_MAX` different ones are kept once."""

    __slots__ = ("_known", "_log", "_numbers", "_values")

    def __init__(self) -> None:
        self._numbers = Column()
        self._known: dict[Any, int] = {}
        self._values: list[Any] = []
        self._log = Log()

    def append(self, value: Any) -> None:
        """Add a value behind the others."""
        self._numbers.append(self._number(value))

    def _number(self, value: Any) -> int:
        number = self._known.get(value)
        if number is not None:
            return number
        if len(self._values) == KNOWN_MAX:
            return -1 - self._log.append(value)
        self._values.append(value)
        return self._known.setdefault(value, len(self._known))

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, at: int) -> Any:
        number = self._numbers[at]
        return self._values[number] if number >= 0 else self._log[-1 - number]


class Names(Generic[Name]):
    """Different tuples under numbers, found by number and by tuple.

    ``parts``: where the numbers (`Column`) and values (`Values`) of the tuples go.
    """

    __slots__ = ("_found", "_parts")

    def __init__(self, *parts: Column | Values) -> None:
        self._parts = parts
        self._found = Index()

    def append(self, name: Name) -> int:
        """Give a tuple that is not there the next number; return that."""
        number = len(self)
        self._found.put(self._code(name), number)
        for part, value in zip(self._parts, name, strict=True):
            part.append(value)
        return number

    def find(self, name: Name) -> int:
        """Return the number of a tuple, or -1."""
        return self._found.get(self._code(name))

    def _code(self, name: Name) -> int:
        """Return the code of a tuple; another one where a tuple with the same hash has that."""
        code = hash(name)
        while (found := self._found.get(code)) >= 0 and self[found] != name:
            code = hash((code,))
        return code

    def __len__(self) -> int:
        return len(self._parts[0])

    def __getitem__(self, number: int) -> Name:
        return tuple([part[number] for part in self._parts])  # type: ignore[return-value]

    def __iter__(self) -> Iterator[Name]:
        return map(self.__getitem__, range(len(self)))
