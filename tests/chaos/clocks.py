"""Clocks that are wrong: that of the service's processes, by a library that is loaded before libc.

(libfaketime's makes every sleep by the monotonic clock fail where only the wall clock is to be off.)
"""

import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.fault import Fault

SOURCE = Path(__file__).with_name("clock.c")
HOURS = 2 * 3600
"""Further ahead than topics take records by default."""
NEEDS = "a C compiler"


def library(folder):
    """Compile the library that puts clocks wrong; its path."""
    made = folder / "clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", made, SOURCE, "-ldl"], check=True)
    return made


def is_there():
    """Whether clocks can be put wrong here."""
    return shutil.which("cc") is not None


def leaps(*seconds):
    """The service's clock leaps by so much, one after the other; a start before and behind."""

    @contextmanager
    def act(place):
        assert is_there(), f"there is no {NEEDS}"
        clock = place.config.with_name("clock")
        clock.write_text("+0")
        found = library(place.config.parent)
        environment = {"LD_PRELOAD": str(found), "FAKE_CLOCK": str(clock)}
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
