"""Counting operations, so that tests of growth do not depend on the machine."""

import sys

from sequencer.checking.cost import Counted, comparisons

__all__ = ["Counted", "comparisons", "lines"]


def lines(call):
    """How many lines of Python `call` runs through, loops counted each time."""
    count = 0

    def trace(_frame, event, _argument):
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count
