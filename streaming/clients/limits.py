"""What readers that work in parallel go by: when to try again, how much may wait."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from streaming.errors import ConfigError

SECONDS_MAX = 86_400.0
COUNT_MAX = 10_000_000
BYTES_MAX = 2**40
POLL_INTERVAL_MS = 300_000
"""librdkafka's `max.poll.interval.ms` where nobody sets it."""
PASSING_SECONDS_MAX = 1.0
"""How long beyond its time a poll passes over records that are for others."""
UNCHANGED = "Nothing was read."


@dataclass(frozen=True, slots=True)
class Retry:
    """When to retry a delivery whose handler failed.

    Waits ``first_s`` before the second try, then ``factor`` times as long before each further one,
    at most ``longest_s``. Nothing is random: equal failures give equal times. After ``tries``
    failures the delivery is rejected; None (the default): it is tried for ever.
    """

    first_s: float = 0.1
    factor: float = 2.0
    longest_s: float = 30.0
    tries: int | None = None

    def __post_init__(self) -> None:
        right = (
            0 < self.first_s <= self.longest_s <= SECONDS_MAX
            and 1 <= self.factor <= 100
            and (self.tries is None or 1 <= self.tries <= COUNT_MAX)
        )
        if not right:
            raise ConfigError(
                f"{self} is not a schedule of tries.",
                UNCHANGED,
                f"Give 0 < first_s <= longest_s <= {SECONDS_MAX:g}, a factor from 1 to 100, and "
                "at least one try.",
            )

    def delay_s(self, failures: int) -> float:
        """Return the seconds between the last of ``failures`` failures and the next try."""
        exponent = min(failures - 1, 1_000)
        try:
            return min(self.longest_s, self.first_s * self.factor**exponent)
        except OverflowError:
            return self.longest_s


@dataclass(frozen=True, slots=True)
class Limits:
    """How many unfinished deliveries a parallel reader may have.

    ``buffer_records``, ``buffer_bytes`` (of keys and values): deliveries that are not finished,
    shared equally among the partitions that the reader has. ``ahead``: deliveries of a partition
    from its first unfinished one on, finished or not: a crash repeats no more. ``parked``: those of
    a partition in channels whose handler fails. Where one is reached the partition pauses, and goes
    on below half of it.

    ``drain_s``: how long running handlers are waited for when their partition goes to another
    reader, and at the end. ``commit_s``: between two commits.
    """

    buffer_records: int = 10_000
    buffer_bytes: int = 64 * 2**20
    ahead: int = 20_000
    parked: int = 1_000
    drain_s: float = 30.0
    commit_s: float = 1.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name.endswith("_s"):
                right, what = 0 <= value <= SECONDS_MAX, f"from 0 to {SECONDS_MAX:g} seconds"
            else:
                most = BYTES_MAX if each.name.endswith("_bytes") else COUNT_MAX
                right, what = 1 <= value <= most, f"from 1 to {most:,}"
            if not right:
                raise ConfigError(
                    f"{each.name}={value} is not a limit.", UNCHANGED, f"Give {what}."
                )

    def require_below(self, interval_ms: Any) -> None:
        """Raise ConfigError where Kafka takes partitions away before ``drain_s`` has passed.

        ``interval_ms``: the consumer's `max.poll.interval.ms`; None: librdkafka's.
        """
        interval_s = int(interval_ms or POLL_INTERVAL_MS) / 1000
        if self.drain_s >= interval_s:
            raise ConfigError(
                f"drain_s={self.drain_s:g} is not below max.poll.interval.ms.",
                UNCHANGED,
                f"Kafka would take the partitions away meanwhile; give less than {interval_s:g}.",
            )
