"""A word that many threads may change: load, and store if nobody else did meanwhile."""

from __future__ import annotations

import threading
from typing import Protocol


class Word(Protocol):
    """One atomic unsigned integer."""

    def load(self) -> int:
        """The value now."""

    def compare_exchange(self, expected: int, desired: int) -> bool:
        """Store ``desired`` if the value is still ``expected``; say whether that was done."""


class AtomicWord:
    """A :class:`Word` of this process.

    CPython has no compare-and-swap: a lock around one comparison and one store stands in for it,
    for any number of threads; one load is atomic by itself.
    """

    __slots__ = ("_lock", "_value")

    def __init__(self, value: int = 0) -> None:
        self._lock = threading.Lock()
        self._value = value

    def load(self) -> int:
        """The value now."""
        return self._value

    def compare_exchange(self, expected: int, desired: int) -> bool:
        """Store ``desired`` if the value is still ``expected``; say whether that was done."""
        with self._lock:
            if self._value != expected:
                return False
            self._value = desired
            return True
