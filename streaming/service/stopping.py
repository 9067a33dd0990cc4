"""Being asked to stop: SIGTERM and Ctrl-C, from the first moment on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from streaming.logs import say

NUMBERS = (signal.SIGTERM, signal.SIGINT)


class Stopping(threading.Event):
    """Set by the first SIGTERM or Ctrl-C; further ones change nothing."""

    def listen(self) -> None:
        """Take these signals from now on; in the main thread."""
        for number in NUMBERS:
            signal.signal(number, self._on_signal)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take them inside, where this is the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in NUMBERS}
        self.listen()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: Any) -> None:
        if not self.is_set():
            name = signal.Signals(number).name
            say(f"{name}: finishing the running batch", event="stopping", signal=name)
        self.set()
