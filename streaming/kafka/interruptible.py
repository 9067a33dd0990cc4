"""confluent-kafka's clients, in which Ctrl-C is Ctrl-C also while they call back."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

CALLS = ("close", "commit", "commit_transaction", "consume", "flush", "poll")
"""Which call back: with reports of delivery, commits, assignments, errors, and lines to log."""
LOST = re.compile("without (setting an exception|exception set)")
NO_NAME = "expected header key to be unicode"


@cache
def interruptible(client: Any) -> Any:
    """Return a class of confluent-kafka's whose calls end with KeyboardInterrupt at Ctrl-C.

    Python 3.11 makes an object of an interrupt only where Python code takes notice of it.
    confluent-kafka keeps the object alone of what its callbacks raise, and so nothing if the
    interrupt comes as one begins: its call ends with SystemError.
    """
    calls = {name: _whole(getattr(client, name)) for name in CALLS if hasattr(client, name)}
    return type(client.__name__, (client,), calls)


def _whole(call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def whole(*arguments: Any, **more: Any) -> Any:
        try:
            return call(*arguments, **more)
        except SystemError as error:
            if LOST.search(str(error)):
                raise KeyboardInterrupt from None
            raise

    return whole


def as_interrupt(error: TypeError) -> BaseException:
    """Return what to raise in place of an error of `produce` whose headers have right names.

    It reads names with a call that an interrupt ends, and finds none. It is not among the calls
    above: behind C's call Python would handle signals, and nobody knew that the message is taken.
    """
    return KeyboardInterrupt() if NO_NAME in str(error) else error
