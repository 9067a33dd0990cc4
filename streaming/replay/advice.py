"""Which gap time and buffer would have given up few enough messages, by the disorder measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from streaming.arrow.histograms import BOUNDS, DISPLACED, LATE_MS
from streaming.arrow.totals import Totals
from streaming.settings.values import Span

LATE = "late"


@dataclass(frozen=True, slots=True)
class Choice:
    """A setting, and the share of messages (0 … 1) that it would have given up, at most."""

    value: int
    share: float


@dataclass(frozen=True, slots=True)
class Advice:
    """``messages`` measured, of which ``out_of_order`` came below a label that was there before.

    ``late`` more came after they had been given up: how much longer they would have had to be
    waited for is not known, so no gap time counts as long enough for them. ``after_ms`` and
    ``labels`` are the choices; the first of each that gives up less than the share that one
    wants is ``after_best`` (ms) and ``labels_best``, None where none does.
    """

    messages: int
    out_of_order: int
    late: int
    after_ms: Sequence[Choice]
    labels: Sequence[Choice]
    after_best: Choice | None
    labels_best: Choice | None


def advise(totals: Totals, share: float) -> Advice:
    """Advice from what a channel pipeline's shards have measured."""
    late = totals.rejected.get(LATE, 0)
    after_ms = _choices(totals.histograms, LATE_MS, late)
    labels = _choices(totals.histograms, DISPLACED, late)
    *counts, _ = totals.histograms.get(DISPLACED, [0, 0])
    return Advice(
        messages=sum(counts),
        out_of_order=sum(counts[1:]),
        late=late,
        after_ms=after_ms,
        labels=labels,
        after_best=next((each for each in after_ms if each.share < share), None),
        labels_best=next((each for each in labels if each.share < share), None),
    )


def gap_time(choice: Choice) -> str:
    """A gap time as the configuration has it."""
    return str(Span(choice.value))


def _choices(histograms: Mapping[str, Sequence[int]], name: str, late: int) -> list[Choice]:
    """Each bound of a histogram (but 0) with the share of messages above it."""
    bounds = BOUNDS[name]
    *counts, _ = histograms.get(name) or [0] * (len(bounds) + 2)
    whole = sum(counts) + late
    below = list(accumulate(counts))[: len(bounds)]
    return [
        Choice(bound, (whole - reached) / whole if whole else 0.0)
        for bound, reached in zip(bounds, below, strict=True)
        if bound
    ]
