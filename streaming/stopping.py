"""Being asked to stop: SIGTERM and Ctrl-C, from the first moment on."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from streaming.logs import say

NUMBERS = (signal.SIGTERM, signal.SIGINT)


def end_as_by_ctrl_c() -> None:
    """Have SIGTERM and a closed terminal end the program as Ctrl-C does: with what it started."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, signal.default_int_handler)


class Stopping(threading.Event):
    """Set by the first SIGTERM or Ctrl-C; further ones change nothing.

    ``busy``: whether there may be a batch that is finished first. The main thread gets the signals
    and reads; a new thread for each signal sets it, one at a time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.busy = False
        self._one = threading.Lock()

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
        # In a thread of its own: the main one, in which this runs, may hold the lock of this very
        # event (it waits for it most of the time), or be in the middle of a line of the log.
        _thread.start_new_thread(self._note, (number,))

    def _note(self, number: int) -> None:
        with self._one:
            if not self.is_set():
                name = signal.Signals(number).name
                what = "finishing the running batch" if self.busy else "stopping"
                say(f"{name}: {what}", event="stopping", signal=name)
            self.set()
