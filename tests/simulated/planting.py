"""Faults planted in the service, each of which some seed has to find.

A plant replaces a piece of the shipped code by one that is wrong, as a person might have written
it. `PLANTS` has them by name; each is called with `put`, which replaces an attribute until the plant
is taken back.
"""

from __future__ import annotations

from contextlib import contextmanager

PLANTS = {}
INHERITED = object()


def plant(make):
    """Have a function among the plants, under its name."""
    PLANTS[make.__name__.replace("_", "-")] = make
    return make


@contextmanager
def planted(name):
    """The service with a fault in it."""
    before = []

    def put(owner, attribute, value):
        before.append((owner, attribute, owner.__dict__.get(attribute, INHERITED)))
        setattr(owner, attribute, value)

    PLANTS[name](put)
    try:
        yield
    finally:
        for owner, attribute, value in reversed(before):
            if value is INHERITED:
                delattr(owner, attribute)
            else:
                setattr(owner, attribute, value)
