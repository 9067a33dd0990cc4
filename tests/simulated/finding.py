"""Which seed finds a planted fault."""

import math
import re
import time

from tests.simulated import (  # noqa: F401  (their plants are among `PLANTS`)
    planted_backups,
    planted_here,
    planted_kinds,
    planted_mends,
    planted_reading,
    planted_refusing,
    planted_starts,
    planted_uses,
    planted_writing,
)
from tests.simulated.planting import AIMS, PLANTS, planted
from tests.simulated.run import run

BROKEN = re.compile("TypeError|AttributeError|NameError")
"""What a plant raises that was written for another service."""
OWN = "<locals>."
"""In an error that says that what a plant puts in is called otherwise than it was written for."""
SAID_MAX = 100


def found(name, first, seeds, seconds=math.inf):
    """The ``seed`` that finds a plant (None: none does) of so many ``seeds``, and what it ``said``.

    A plant that needs certain faults is looked for in histories that have one of them.
    """
    began, seed = time.monotonic(), first
    with planted(name):
        for seed in range(first, first + seeds):
            if time.monotonic() - began > seconds:
                break
            faults, history = run(seed, aim=AIMS[name])
            broken = [line for line in history.world.log if BROKEN.search(line)]
            broken += [each for each in history.service.surprises if OWN in each]
            assert not broken, f"{name} does not fit to the service any more: {broken[0]}"
            if faults:
                return {"seed": seed, "seeds": seed + 1 - first, "said": short(faults[0])}
    return {"seed": None, "seeds": seed + 1 - first, "said": ""}


def short(text):
    """The beginning of what was found."""
    return text if len(text) <= SAID_MAX else f"{text[:SAID_MAX]}…"


__all__ = ["AIMS", "PLANTS", "found", "short"]
