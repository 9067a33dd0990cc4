"""Faults planted in the service, each of which some seed has to find.

A plant replaces a piece of the shipped code by one that is wrong, as a person might have written
it. `PLANTS` has them by name; each is called with `put`, which replaces an attribute until the plant
is taken back.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial

PLANTS = {}
PIPELINE = {}
"""The pipeline that histories run to find a plant, where only one has what it concerns."""
NEEDED = {}
"""What a history's faults must have, as a regular expression, for a plant to show: others are left out."""
INHERITED = object()


def plant(make, pipeline=None, needs=None):
    """Have a function among the plants, under its name."""
    name = make.__name__.replace("_", "-")
    PLANTS[name] = make
    if pipeline is not None:
        PIPELINE[name] = pipeline
    if needs is not None:
        NEEDED[name] = needs
    return make


def plant_in(pipeline=None, needs=None):
    """The same; what it concerns is in this pipeline only, or shows under these faults only."""
    return partial(plant, pipeline=pipeline, needs=needs)


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
