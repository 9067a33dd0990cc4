"""Clocks that are wrong: that of the service's processes, by libfaketime."""

import os
from contextlib import contextmanager
from ctypes.util import find_library
from pathlib import Path

from tests.chaos.fault import Fault

LIBRARY = "SEQUENCER_FAKETIME"
"""Names libfaketimeMT.so.1 where it is not in its usual place."""
USUAL = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
HOURS = 2 * 3600
"""Further ahead than topics take records by default."""
NEEDS = "libfaketime"


def library():
    """The library that fakes clocks, None where it is not installed."""
    path = Path(os.environ.get(LIBRARY, USUAL))
    return path if path.exists() else find_library("faketimeMT")


def leaps(*seconds):
    """The service's clock leaps by so much, one after the other; a start before and behind."""

    @contextmanager
    def act(place):
        found = library()
        assert found, f"libfaketime is not installed; {LIBRARY} may name it"
        clock = place.config.with_name("clock")
        clock.write_text("+0")
        environment = {
            "LD_PRELOAD": str(found),
            "FAKETIME_TIMESTAMP_FILE": str(clock),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        assert place.service.stop() == 0, place.service.said()
        place.start(environment=environment)
        place.next_deliveries()
        for each in seconds:
            clock.write_text(f"{each:+d}")
            place.wait(5)
            place.next_deliveries()
        assert place.service.stop() == 0, place.service.said()
        place.start()
        yield

    return act


FAULTS = (
    Fault("clock two hours ahead, and back", leaps(HOURS, 0), needs=NEEDS),
    Fault("clock two hours behind, and on", leaps(-HOURS, 0), needs=NEEDS),
)
