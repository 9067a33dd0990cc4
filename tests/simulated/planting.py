"""Faults planted in the service, each of which some seed has to find.

A plant replaces a piece of the shipped code by one that is wrong, as a person might have written
it. `PLANTS` has them by name; each is called with `put`, which replaces an attribute until the plant
is taken back.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

PLANTS = {}
AIMS = {}
INHERITED = object()


@dataclass(frozen=True)
class Aim:
    """What a history must have for a plant to show; what it says nothing of is left to the seed.

    ``pipeline``: its name. ``faults``: a regular expression that one of the faults matches.
    ``folder``: whether the checkpoint is a folder on a disk that is waited for, with what is held in
    files, or an object store. ``part``: how many records a transaction has at most. ``refuses``:
    whether Kafka refuses some records, as it does for late seeds.
    """

    pipeline: str | None = None
    faults: str = ""
    folder: bool | None = None
    part: int | None = None
    refuses: bool = False

    def __str__(self):
        """Say it in a few words."""
        where = {None: "", True: "on a folder", False: "on an object store"}[self.folder]
        part = f"parts of {self.part}" if self.part else ""
        faults = self.faults.replace("|", " or ").replace("\\", "")
        refuses = "records are refused" if self.refuses else ""
        return ", ".join(filter(None, [self.pipeline, where, part, refuses, faults]))


ANY = Aim()


def plant(make, aim=ANY):
    """Have a function among the plants, under its name."""
    name = make.__name__.replace("_", "-")
    PLANTS[name], AIMS[name] = make, aim
    return make


def plant_in(pipeline=None, *, needs="", folder=None, part=None, refuses=False):
    """The same; it is looked for in histories that have all this."""
    return partial(plant, aim=Aim(pipeline, needs, folder, part, refuses))


@contextmanager
def planted(name):
    """The service with a fault in it."""
    before = []

    def put(owner, attribute, value):
        assert hasattr(owner, attribute), f"{name} replaces what is no longer there: {attribute}"
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
