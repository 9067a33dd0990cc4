"""Being asked to stop: SIGTERM and Ctrl-C, from the first moment on."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NUMBERS = (signal.SIGTERM, signal.SIGINT)


def say(text: str) -> None:
    """One line for people, on standard error."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


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
            say(f"{signal.Signals(number).name}: finishing the running batch")
        self.set()
