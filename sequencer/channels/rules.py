"""The rules of a pipeline's channels: labels, gap policy, bounds."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sequencer.channels.delays import Int64s, Quantile
from sequencer.channels.globs import first_match, first_match_of
from sequencer.labels import Labels

HELD_MAX = 1_000_000
WINDOW_MAX = 2**31
WINDOW_DEFAULT = 1_000_000
CUSTOM_WINDOW_DEFAULT = 10_000
CUSTOM_WINDOW_MAX = 1_000_000
CUSTOM_SEARCH_MIN = 1_000
SKIPPED_RANGES_MAX = 64
"""The most ranges of gaps remembered for each channel. If there are more gaps, the oldest become
one range that includes the labels delivered between: a repeat of those counts as late, but a
given-up label never as a duplicate."""


class Blocked(Protocol):
    """A channel that waits for its next label, as a gap policy sees it."""

    def pass_gap(self, now_ms: int) -> None:
        """Give up the missing labels below the lowest held one."""

    def fail(self, now_ms: int) -> None:
        """Raise GapFailure."""


@dataclass(frozen=True, slots=True)
class GapPolicy:
    """The treatment of missing labels after others have waited for them for the gap time.

    ``after_ms``: the gap time; None: for ever. ``by``: derives the gap time from the delays of
    messages (see :meth:`Rules.by_delays`); then ``after_ms`` is the longest. Each policy is a class
    of its own, listed in POLICIES; ``word`` is its name in the configuration.
    """

    word: ClassVar[str]
    after_ms: int | None = None
    by: Quantile | None = None

    def __post_init__(self) -> None:
        if self.after_ms is not None and self.after_ms < 0:
            raise ValueError(f"after_ms is {self.after_ms}; it must be 0 or more")

    def end(self, channel: Blocked, now_ms: int) -> None:
        """End a channel's wait after the gap time: move its frontier, or raise GapFailure."""
        raise NotImplementedError

    def by_delays(self, counts: Int64s) -> GapPolicy:
        """Return the policy with the gap time that follows from counted delays."""
        return self if self.by is None else replace(self, after_ms=self.by.of(counts))

    @property
    def for_repeat(self) -> GapPolicy:
        """Return the policy for a batch that was planned before the service started."""
        return self


class Wait(GapPolicy):
    """Missing labels are waited for without end; with ``by``, delays are counted all the same."""

    __slots__ = ()
    word = "wait"

    def by_delays(self, counts: Int64s) -> GapPolicy:  # noqa: ARG002  (see GapPolicy)
        """Return the policy, which has no gap time."""
        return self


class Skip(GapPolicy):
    """Missing labels are given up."""

    __slots__ = ()
    word = "skip"

    def end(self, channel: Blocked, now_ms: int) -> None:
        """Give the missing labels up."""
        channel.pass_gap(now_ms)


class Fail(GapPolicy):
    """The step fails, without effect."""

    __slots__ = ()
    word = "fail"

    def end(self, channel: Blocked, now_ms: int) -> None:
        """Raise GapFailure."""
        channel.fail(now_ms)

    @property
    def for_repeat(self) -> GapPolicy:
        """Wait: the batch was planned before anybody could send the missing label."""
        return Wait(by=self.by)


WAIT = Wait()
POLICIES = {policy.word: policy for policy in (Wait, Skip, Fail)}


class Full(enum.Enum):
    """The treatment of a message whose channel's buffer is full."""

    REJECT = "reject"
    SKIP = "skip"


RULES_MAX = 100
"""The most rules of channels that a pipeline may have besides its own."""
BEHIND_TIMES = 4
"""While reading is behind, waits last up to this many times as long. Without a bound, what waits
for a label that was never sent would fill the state and its channel's buffer."""
NEVER_MS = 2**62
"""A time that is never reached."""


def window_max(cycle: int | None) -> int:
    """Return the widest window, in labels, for a sequence with this cycle: below half of it."""
    return WINDOW_MAX if cycle is None else min(WINDOW_MAX, (cycle - 1) // 2)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one pipeline's channels. Times in ms; counts in messages or labels.

    ``others``: rules of the channels that match a glob (see `sequencer.channels.globs`); the first
    match counts. A channel's *rule* is its number: 0 for the pipeline's own, from 1 on for others.

    ``held_max`` bounds the messages held for one channel, ``window`` the distance of a label ahead
    of the frontier. ``search``: the labels on each side of the frontier among which a label of a
    custom sequence is searched; farther ones are unknown. ``drop_duplicates``: whether a duplicate
    is only counted. ``settle_ms``: if not None, a channel begins with the lowest label that arrives
    within this time. ``pass_unlabelled``: a record without a label is delivered where it arrives,
    not rejected. ``notices``: events of channels are also records in their streams. ``ask_ms``: the
    time after the first message above them when missing labels are requested; None: never.
    ``pauses``: the times in which the service read nothing, in order, which no wait counts: the
    time of the batch before each, and its length. ``caught_up_ms``: until when all that had come is
    read, where the batch leaves some unread (None: all is read): a label that is waited for may lie
    there, so waits that end later go on, up to BEHIND_TIMES their length since ``behind_ms``, when
    reading fell behind.
    """

    labels: Labels
    gap: GapPolicy = WAIT
    held_max: int = 10_000
    window: int = WINDOW_DEFAULT
    full: Full = Full.REJECT
    retire_after_ms: int = 7 * 24 * 3600 * 1000
    pass_unlabelled: bool = False
    drop_duplicates: bool = False
    notices: bool = False
    settle_ms: int | None = None
    ask_ms: int | None = None
    pauses: tuple[tuple[int, int], ...] = ()
    caught_up_ms: int | None = None
    behind_ms: int = 0
    others: tuple[tuple[str, Rules], ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.held_max <= HELD_MAX:
            raise ValueError(f"held_max is {self.held_max}; it must lie in 1 … {HELD_MAX}")
        limit = window_max(self.labels.cycle)
        if not 1 <= self.window <= limit:
            raise ValueError(
                f"window is {self.window}; it must lie in 1 … {limit}"
                + ("" if self.labels.cycle is None else ", below half of the labels' cycle")
            )
        if self.ask_ms is not None and self.ask_ms < 1:
            raise ValueError("ask_ms must be 1 or more")
        if self.retire_after_ms < 1:
            raise ValueError("retire_after_ms must be 1 or more")
        if self.settle_ms is not None and (self.settle_ms < 0 or self.labels.cycle is not None):
            raise ValueError("settle_ms must be 0 or more, and labels without a cycle")
        if len(self.others) > RULES_MAX or any(rules.others for _, rules in self.others):
            raise ValueError(f"others: at most {RULES_MAX} rules, which have no others")
        if self.globs:
            first_match_of(b"", self.globs)

    @property
    def search(self) -> int:
        """Labels on each side of the frontier among which a custom sequence's are recognised."""
        return 2 * self.window + CUSTOM_SEARCH_MIN

    def position(self, in_cycle: int, frontier: int) -> int:
        """The position on the endless line; a cyclic label's is near the frontier (RFC 1982)."""
        cycle = self.labels.cycle
        if cycle is None:
            return in_cycle
        ahead = (in_cycle - frontier) % cycle
        return frontier + ahead if ahead <= self.window else frontier + ahead - cycle

    def is_beyond_search(self, position: int, frontier: int) -> bool:
        """Whether a label is too far from the frontier to be recognised as one of its sequence."""
        return self.labels.searched and not -self.search <= position - frontier < self.search

    @property
    def first_start(self) -> int:
        """Return the start of a new channel: position 0; -1 if its first label is not known yet."""
        return 0 if self.settle_ms is None else -1

    @property
    def globs(self) -> tuple[str, ...]:
        """The globs of the other rules, in order."""
        return tuple(glob for glob, _ in self.others)

    @property
    def each(self) -> tuple[Rules, ...]:
        """The rules by number."""
        return (self, *(rules for _, rules in self.others))

    def numbers_of(self, keys: pa.Array) -> NDArray[np.int64]:
        """The rule of each channel; a function of its key alone."""
        return first_match(keys, self.globs)

    def glob_of(self, rule: int) -> str | None:
        """The glob of a rule; None for the pipeline's own."""
        return self.globs[rule - 1] if rule else None

    def limit(self, name: str, rule: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the limit ``name`` of each channel; of length 1 if there is only one rule.

        That broadcasts to all, so that rules which are not used cost nothing.
        """
        if not self.others:
            return np.array([getattr(self, name)], dtype=np.int64)
        numbers = np.array([getattr(rules, name) for rules in self.each], dtype=np.int64)
        return numbers[rule]

    def counted(self, since_ms: Any) -> Any:
        """Return when waits would have begun without pauses: each is later by those behind it.

        ``since_ms``: a number, or an array of them.
        """
        if not self.pauses:
            return since_ms
        at_ms, length_ms = np.array(self.pauses).T
        behind = np.append(np.cumsum(length_ms[::-1])[::-1], 0)
        return since_ms + behind[np.searchsorted(at_ms, since_ms)]

    def waited(self, since_ms: Any, now_ms: int) -> Any:
        """Return how long waits have lasted, as compared with what ends them, in a batch."""
        lasted = now_ms - self.counted(since_ms)
        if self.caught_up_ms is None:
            return lasted
        behind = np.minimum(lasted, max(now_ms - self.counted(self.behind_ms), 0)) // BEHIND_TIMES
        return np.maximum(lasted - max(now_ms - self.caught_up_ms, 0), behind)

    @property
    def asks(self) -> bool:
        """Return whether missing labels are requested."""
        return any(rules.ask_ms is not None for rules in self.each)

    @property
    def ask_every_ms(self) -> int:
        """Return ``ask_ms``; NEVER_MS for None."""
        return NEVER_MS if self.ask_ms is None else self.ask_ms

    @property
    def measures(self) -> bool:
        """Return whether a gap time follows from delays, which are then counted."""
        return any(rules.gap.by is not None for rules in self.each)

    def by_delays(self, counts: Int64s) -> Rules:
        """Return the rules with the gap times that follow from counted delays (rows by rule)."""
        if not self.measures:
            return self
        own, *others = (
            replace(rules, gap=rules.gap.by_delays(delays), others=())
            for rules, delays in zip(self.each, counts, strict=True)
        )
        return replace(own, others=tuple(zip(self.globs, others, strict=True)))

    @property
    def wait_ms(self) -> int:
        """Return how long a message waits for a gap before the policy acts."""
        return NEVER_MS if self.gap.after_ms is None else self.gap.after_ms

    @property
    def for_repeat(self) -> Rules:
        """Return the rules for a batch that was planned before the service started."""
        others = tuple((glob, rules.for_repeat) for glob, rules in self.others)
        return replace(self, gap=self.gap.for_repeat, others=others)
