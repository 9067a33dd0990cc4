"""What of an input is lost before it was read, and what a service says of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from streaming.errors import InputLost
from streaming.source.positions import Offsets, Position, logs_in, offsets_in, position

MADE_AGAIN, DELETED, CUT_BACK = "made again", "deleted", "cut back"
"""What happened to a partition, or its topic."""
OPTION = "--accept-lost-input"
STOPPED = "Nothing was written for what is lost, nor for what comes behind it."
UNFINISHED = (
    "The batch that reads it is not finished. Parts of it may be written, also for what is lost, "
    "where it was read before."
)
"""Of a batch: each partition of the state reads and commits for itself, and it may be a repeat."""
GO_ON = (
    f"Start with {OPTION} to go on with what is there, or with a new checkpoint folder (all that "
    "is there is then read again)."
)
CANNOT_REPEAT = (
    f"A batch that was under way cannot be repeated without it: start with {OPTION}, and it is "
    "planned anew from what is there."
)
PLACES_MAX = 3
"""This many partitions are named; what happened to one mostly happened to others, too."""


class Loss(NamedTuple):
    """A partition that is not what was read of it up to the offset ``read``.

    ``what`` happened; ``begin``: where reading can go on.
    """

    topic: str
    partition: int
    what: str
    read: int
    begin: int

    def __str__(self) -> str:
        place = f"{self.topic}, partition {self.partition}"
        if self.what == MADE_AGAIN:
            return f"{self.topic} was deleted and made again; the new topic was not read yet"
        if self.what == DELETED:
            return (
                f"{place}: offsets {self.read} to {self.begin - 1} were deleted before they were "
                "read (retention goes by the records' timestamps)"
            )
        return (
            f"{place}: what was read up to offset {self.read} ends at {self.begin} now (its log "
            "was cut back, as in an unclean election); what may have come in its place was not read"
        )


@dataclass(slots=True)
class Acceptance:
    """Losses that somebody accepted: in these ``topics``, each until it was looked at once."""

    topics: set[str] = field(default_factory=set)
    say: Callable[[str], object] = lambda _text: None

    def covers(self, losses: Sequence[Loss]) -> bool:
        """Say what is passed over, where all of it is accepted; whether it is."""
        if not self.topics.issuperset(each.topic for each in losses):
            return False
        if losses:
            self.say(f"Input is lost, as was accepted: {said(losses)}. Reading goes on behind it.")
        return True


def lost(losses: Sequence[Loss], effect: str = STOPPED, remedy: str = GO_ON) -> InputLost:
    """Return the error; by default what is lost was to be in the next batch."""
    return InputLost(f"Input is lost: {said(losses)}.", effect, remedy)


def going_on(end: Position, losses: Sequence[Loss], begin: Offsets) -> Position:
    """Return a position that was reached by reading on behind what is lost.

    ``begin``: where reading began, if the position is to say so also where nothing is lost.
    """
    begins = {topic: dict(of) for topic, of in begin.items()}
    ends = offsets_in(end)
    for each in losses:
        at = str(each.partition)
        begins.setdefault(each.topic, {})[at] = each.begin
        if at in ends.get(each.topic, {}):
            # An open transaction hides all behind its begin, also what was read once it had ended.
            ends[each.topic][at] = max(ends[each.topic][at], each.begin)
    logs = {
        topic: replace(log, begins=begins.get(topic, {})) for topic, log in logs_in(end).items()
    }
    return position(ends, logs)


def said(losses: Sequence[Loss]) -> str:
    """Return what happened, to the first partitions of them."""
    each = list(dict.fromkeys(map(str, losses)))
    more = [f"and {len(each) - PLACES_MAX} more"] if len(each) > PLACES_MAX else []
    return "; ".join([*each[:PLACES_MAX], *more])
