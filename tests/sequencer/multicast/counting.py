"""Counting operations, so that tests of growth do not depend on the machine."""

import sys


class Counted(int):
    """An integer that counts how often it is compared, and passes that on to what is above it."""

    compared = 0

    def __add__(self, other):
        return Counted(int(self) + other)

    def __lt__(self, other):
        Counted.compared += 1
        return int(self) < int(other)

    def __le__(self, other):
        Counted.compared += 1
        return int(self) <= int(other)

    def __gt__(self, other):
        Counted.compared += 1
        return int(self) > int(other)

    def __ge__(self, other):
        Counted.compared += 1
        return int(self) >= int(other)

    def __eq__(self, other):
        Counted.compared += 1
        return int(self) == int(other)

    __hash__ = int.__hash__


def comparisons(call):
    before = Counted.compared
    call()
    return Counted.compared - before


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
