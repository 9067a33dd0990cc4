"""What a pipeline wants of its channels: labels, what to do about gaps, bounds."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from sequencer.labels import Labels

HELD_MAX = 1_000_000
WINDOW_MAX = 2**31
WINDOW_DEFAULT = 1_000_000
CUSTOM_WINDOW_DEFAULT = 10_000
CUSTOM_SEARCH_MIN = 1_000
SKIPPED_RANGES_MAX = 64
"""Given-up ranges remembered for each channel. Where there are more, the oldest become one with
what was delivered between: a repeat of that counts as late, never a given-up label as duplicate."""


class Gap(enum.Enum):
    """What happens to missing labels that others wait for."""

    WAIT = "wait"
    SKIP = "skip"
    FAIL = "fail"


class Full(enum.Enum):
    """What happens to a message that finds its channel's buffer full."""

    REJECT = "reject"
    SKIP = "skip"


def window_max(cycle: int | None) -> int:
    """The widest window, in labels, that a sequence with this cycle allows: below half of it."""
    return WINDOW_MAX if cycle is None else min(WINDOW_MAX, (cycle - 1) // 2)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one pipeline's channels. Times in ms; counts in messages or labels.

    ``held_max`` bounds the messages held for one channel, ``window`` how far ahead of the frontier
    a label may be. ``gap_after_ms`` matters for SKIP and FAIL only. ``search`` is how many labels
    past the frontier a custom sequence is searched for a label; farther ones are unknown.
    """

    labels: Labels
    gap: Gap = Gap.WAIT
    gap_after_ms: int = 0
    held_max: int = 10_000
    window: int = WINDOW_DEFAULT
    full: Full = Full.REJECT
    retire_after_ms: int = 7 * 24 * 3600 * 1000

    def __post_init__(self) -> None:
        if not 1 <= self.held_max <= HELD_MAX:
            raise ValueError(f"held_max is {self.held_max}; it must lie in 1 … {HELD_MAX}")
        limit = window_max(self.labels.cycle)
        if not 1 <= self.window <= limit:
            raise ValueError(
                f"window is {self.window}; it must lie in 1 … {limit}"
                + ("" if self.labels.cycle is None else ", below half of the labels' cycle")
            )
        if self.gap_after_ms < 0 or self.retire_after_ms < 1:
            raise ValueError("gap_after_ms must be 0 or more, retire_after_ms 1 or more")

    @property
    def gap_ends_ms(self) -> int | None:
        """How long a message waits for a gap before the policy acts; None for ever."""
        return None if self.gap is Gap.WAIT else self.gap_after_ms

    @property
    def search(self) -> int:
        """Labels past the frontier that are looked at to recognise a label of a custom sequence."""
        return 2 * self.window + CUSTOM_SEARCH_MIN
