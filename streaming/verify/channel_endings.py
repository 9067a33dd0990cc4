"""Where each input of a channel pipeline ended: delivery, reject, dropped, or held back."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from streaming.verify.channel_readings import ChannelLife, Judging, Reading
from streaming.verify.channel_rejects import Tally
from streaming.verify.inputs import is_due
from streaming.verify.records import Record


def judge_endings(
    work: Judging,
    readings: list[Reading],
    delivered: Counter[Any],
    rejected: set[tuple[str, int, int]],
    tally: Tally,
) -> None:
    """Each input ended in exactly one place: delivery, reject, dropped, or held."""
    verdict, settings = work.verdict, work.settings
    waiting = _left_over(work, readings, delivered, rejected)
    held = dropped = 0
    known = work.lasting()
    cyclic = settings.labels.cycle is not None
    for channel, records in waiting.items():
        life = work.lives.get(channel)
        lives = [life, None] if life and work.may_begin_again(channel, life) else [life]
        lives += _begun(work, channel, life)
        drops = settings.of(channel).drop_duplicates
        # What is not due neither ends an epoch nor fills a gap yet.
        due = [each for each in records if is_due(each[0].place, work.due)]
        held_back = _any_of([_may_be_held(work, channel, tried, due) for tried in lives])
        for record, reading in records:
            again = tally.copies[channel, reading.epoch, reading.position] > 1
            if not is_due(record.place, work.due):
                held += 1  # the service may have read it after the outputs were read
            elif reading.passes:
                verdict.find("lost", f"{record} has no label, and did not pass")
            elif reading.reason is None and held_back(reading) and not again:
                held += 1
                known.add(channel)
            elif drops and reading.reason is None and (again or cyclic):
                dropped += 1  # cyclic: a label beyond the window counts as one of the past
            elif reading.reason is None and held_back(reading):
                held += 1
            else:
                verdict.find("lost", f"{record} was neither delivered, rejected nor held back")
    for content, count in delivered.items():
        if count > 0:
            key = content[0]
            verdict.find("invented", f"a delivery of key {key!r} has no such input: {content!r}")
    # Channels as `status` counts them: without those that retired.
    verdict.look(held=held, dropped=dropped, channels=len(known))


def _left_over(
    work: Judging,
    readings: list[Reading],
    delivered: Counter[Any],
    rejected: set[tuple[str, int, int]],
) -> dict[bytes, list[tuple[Record, Reading]]]:
    """By channel, inputs neither rejected nor delivered; takes those found off ``delivered``."""
    waiting: dict[bytes, list[tuple[Record, Reading]]] = defaultdict(list)
    for record, reading in zip(work.material.inputs, readings, strict=True):
        if record.place in rejected:
            continue
        if delivered[record.content] > 0:
            delivered[record.content] -= 1
        else:
            waiting[reading.channel or b""].append((record, reading))
    return waiting


def _begun(work: Judging, channel: bytes, life: ChannelLife | None) -> list[ChannelLife | None]:
    """Lives and epochs of a cycle's labels of which there are gaps, and no delivery yet."""
    last = (life.incarnation, life.epoch) if life else (-1, -1)
    names = {(born, epoch) for born, epoch, _ in work.passed.get(channel, {})}
    return [ChannelLife(born, epoch=epoch) for born, epoch in names if (born, epoch) > last]


def _any_of(tests: list[Callable[[Reading], bool]]) -> Callable[[Reading], bool]:
    return lambda reading: any(test(reading) for test in tests)


def _may_be_held(
    work: Judging,
    channel: bytes,
    life: ChannelLife | None,
    records: list[tuple[Record, Reading]],
) -> Callable[[Reading], bool]:
    """Which of a channel's records may wait: of its epoch, with the next label missing."""
    cycle = work.settings.labels.cycle
    # A higher epoch takes over at its arrival, also where its first label is missing.
    labelled = [reading for _, reading in records if not reading.passes]
    epochs = [reading.epoch for reading in labelled if reading.reason is None]
    epoch = max([life.epoch if life else 0, *epochs])
    if life and life.epoch == epoch:
        expected: int | None = work.reached(channel, life)
    else:
        expected = _first(work, channel, life, epoch)
    if expected is None:
        return lambda reading: reading.epoch == epoch
    following = expected if cycle is None else expected % cycle
    missing = following not in {r.position for _, r in records if r.epoch == epoch}

    def ahead(reading: Reading) -> bool:
        distance = reading.position - following
        return distance > 0 if cycle is None else 0 < distance % cycle <= cycle // 2

    return lambda reading: missing and reading.epoch == epoch and ahead(reading)


def _first(work: Judging, channel: bytes, life: ChannelLife | None, epoch: int) -> int | None:
    if not work.settings.first_seen:
        return 0
    starts = work.starts.get((channel, epoch), {-1: -1})
    latest = max(starts)
    return starts[latest] if latest > (life.incarnation - 1 if life else -1) else None
