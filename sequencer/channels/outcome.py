"""The result of a step: where every input record ended, and the events."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sequencer.channels.disorder import Disorder
from sequencer.channels.state import ShardState


class Reason(enum.IntEnum):
    """Why a record was rejected, in order of precedence (contract, discipline `channel`).

    The last three are for records that had been accepted: their channel was forgotten, or they
    cannot be delivered.
    """

    MISSING_CHANNEL = 0
    MISSING_LABEL = 1
    BAD_LABEL = 2
    BAD_EPOCH = 3
    STALE_EPOCH = 4
    AFTER_FIN = 5
    OUTSIDE_WINDOW = 6
    LATE = 7
    DUPLICATE = 8
    BUFFER_FULL = 9
    RESET = 10
    TOO_LARGE = 11
    REFUSED = 12

    @property
    def text(self) -> str:
        """Return the value of the header ``reject-reason``."""
        return REASONS[self]


REASONS = tuple(reason.name.lower().replace("_", "-") for reason in Reason)


@dataclass(frozen=True, slots=True)
class ChannelEvent:
    """Something for the events topic: `gap`, `fin`, ``epoch`` or `retired`.

    ``position`` is the frontier at that moment (0 for a new epoch). It makes the event's id: with
    channel, incarnation and epoch it names one event of its kind for ever.
    ``fields`` are JSON values; gap bounds are labels, half-open (None behind the last label).
    """

    kind: str
    channel: bytes
    incarnation: int
    epoch: int
    position: int
    fields: dict[str, Any]


class GapName(NamedTuple):
    """The identity of a gap's event; see `ChannelEvent`."""

    channel: bytes
    incarnation: int
    epoch: int
    position: int


class Want(NamedTuple):
    """A run of missing labels to request: ``first`` up to ``stop``, half-open."""

    channel: bytes
    epoch: int
    first: int | str
    stop: int | str
    tries: int


class GapFailure(Exception):  # noqa: N818  (a verdict on the data, not a malfunction)
    """A gap outlived its time under the policy FAIL; the step took no effect."""

    def __init__(self, channel: bytes, epoch: int, first: int | str, waited_ms: int) -> None:
        super().__init__(channel, epoch, first, waited_ms)
        self.channel = channel
        self.epoch = epoch
        self.first = first
        self.waited_ms = waited_ms


@dataclass(frozen=True, slots=True)
class Delivered:
    """Deliveries of one step, parallel int64 arrays; each channel's rows are in label order.

    Those of commands come first, then those of records; each in the order of the channels. So the
    deliveries before a record do not depend on whether it is refused.

    ``row`` counts the held rows before the step first (0 … held - 1), then the arrivals. Row -1 - n
    is notice n (of `Outcome`), which took a sequence, too.
    ``channel`` is the row of the channel in ``Outcome.channels``.
    """

    row: NDArray[np.int64]
    channel: NDArray[np.int64]
    sequence: NDArray[np.int64]
    incarnation: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rejected:
    """Rejects of one step, parallel arrays in order of arrival.

    ``row`` as in `Delivered`. ``incarnation`` and ``sequence`` name the last delivery of the
    record's channel before it was rejected, as if one record were taken at a time; ``sequence`` is
    -1 if there is none. ``gaps``: by row, the gap that gave the record's label up.
    """

    row: NDArray[np.int64]
    reason: NDArray[np.uint8]
    incarnation: NDArray[np.int64]
    sequence: NDArray[np.int64]
    gaps: Mapping[int, GapName] = field(default_factory=dict)

    @classmethod
    def empty(cls) -> Rejected:
        """Return an object without rejects."""
        none = np.zeros(0, dtype=np.int64)
        return cls(none, none.astype(np.uint8), none, none)


class Refusal(enum.Enum):
    """Why a command to one channel was not carried out."""

    BAD_LABEL = "bad-label"
    NOT_AHEAD = "not-ahead"
    AFTER_FIN = "after-fin"
    OTHER_EPOCH = "other-epoch"
    TOO_MANY = "too-many"


@dataclass(frozen=True, slots=True)
class Answer:
    """The effect of a command, or what a dry run would do, as counts of channels and labels.

    ``known``: False if it names a channel that did not exist. ``of_first``: whether a refusal is
    about the first of the labels that will not come, not about the one behind them.
    """

    channels: int = 0
    given_up: int = 0
    refused: Refusal | None = None
    known: bool = True
    of_first: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a step.

    ``dropped``: which of the rejected rows are duplicates that the rules want counted only.
    ``held_row`` gives, for each row held after the step (in the order of ``state.held``), its row
    before. Every row is exactly one of delivered, rejected, held. ``answers``: one for each
    command. ``disorder``: that of the arrivals. ``passed``: the number of delivered rows without a
    label. ``notices``: the events that are also records in their channels' streams; one of kind
    `reset` has a command's answer in place of an event, and the field `command`, its number.
    ``wanted``: runs to request. ``answered``: the number of requested labels that arrived, or will
    not come.
    """

    state: ShardState
    channels: pa.Array
    delivered: Delivered
    rejected: Rejected
    dropped: NDArray[np.bool_]
    held_row: NDArray[np.int64]
    events: list[ChannelEvent] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    disorder: Disorder = field(default_factory=Disorder)
    passed: int = 0
    notices: list[ChannelEvent] = field(default_factory=list)
    wanted: list[Want] = field(default_factory=list)
    answered: int = 0
