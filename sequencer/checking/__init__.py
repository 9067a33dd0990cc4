"""Trying the multicast protocols out: trials, their interleavings, and what must hold of them.

`scenarios` what is sent and what is seen, `trials` a scenario on its way through a bus,
`requirements` bus1's and kdbus' by their names, `interleavings` all of a small trial or random
ones of a large one, `cost` what a message costs, in comparisons.
"""

from sequencer.checking.interleavings import Coverage, Finding, explore, sample
from sequencer.checking.requirements import BUS1, KDBUS, bus1, kdbus, only
from sequencer.checking.scenarios import (
    Dequeued,
    Destroy,
    Evidence,
    Finished,
    Scenario,
    Send,
)
from sequencer.checking.trials import Trial

__all__ = [
    "BUS1",
    "KDBUS",
    "Coverage",
    "Dequeued",
    "Destroy",
    "Evidence",
    "Finding",
    "Finished",
    "Scenario",
    "Send",
    "Trial",
    "bus1",
    "explore",
    "kdbus",
    "only",
    "sample",
]
