"""Detection of a worker's input that was cut before its end.

Arrow's stream format closes with an end-of-stream marker (a continuation word and a length of 0),
which its readers do not ask for: bytes that end between two messages end their stream, too. Spark
writes the marker when the rows of the stage before are used up; where that stage fails, is killed
or runs out of memory or disk, it closes the connection instead. So a worker reads its input through
:class:`WholeInput`, which raises where bytes are missing; before something is committed,
:func:`until_end` looks for the marker itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, TypeVar

from streaming.errors import JobFailed

MARKER = b"\xff\xff\xff\xff\0\0\0\0"

Item = TypeVar("Item")
Main = Callable[[Any, Any], Any]


class WholeInput:
    """A binary stream whose reads give as many bytes as were asked for, or raise EOFError."""

    current: WholeInput | None = None
    """The input of the task that this worker runs, or ran last."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._last = b""

    def read(self, size: int | None = -1) -> bytes:
        """Read ``size`` bytes; all that are left where it is negative or None."""
        data = self._stream.read(-1 if size is None else size)
        self._last = (self._last + data)[-8:] if len(data) < len(MARKER) else data[-8:]
        if size is not None and len(data) < size:
            raise EOFError("The stage before this one ended in the middle of its rows.")
        return data

    @property
    def is_at_marker(self) -> bool:
        """Whether the bytes read last are the marker."""
        return self._last == MARKER

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def reading_whole_input(main: Main) -> Main:
    """Return PySpark's ``main`` of a worker (input, output), reading a :class:`WholeInput`."""

    def main_of_whole_input(infile: IO[bytes], outfile: IO[bytes]) -> Any:
        WholeInput.current = WholeInput(infile)
        return main(WholeInput.current, outfile)

    return main_of_whole_input


def until_end(batches: Iterable[Item]) -> Iterator[Item]:
    """Yield what this worker's task reads; raise JobFailed unless the marker follows."""
    yield from batches
    current = WholeInput.current
    if current is None or not current.is_at_marker:
        raise JobFailed(
            "A Python worker cannot tell whether it has read all rows of its batch.",
            "The batch was not finished.",
            "Leave `spark.python.daemon.module` and `spark.python.use.daemon` unset, and "
            "PySpark at the version that this package asks for; then start again.",
        )
