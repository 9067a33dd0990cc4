"""Whether a batch that was planned can still be read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from streaming.source.losses import Loss
from streaming.source.positions import Position, begin_of, logs_in, offsets_in, position
from streaming.source.reader import LOOK_SECONDS, LOOKS, Inputs
from streaming.source.watching import TopicWatch
from streaming.wire.brokers import Brokers

if TYPE_CHECKING:
    from streaming.disciplines.plan import Plan


def lost_of_planned(plan: Plan, begin: Position, end: Position) -> list[Loss]:
    """Return what is no longer there of a batch that goes on from ``begin`` and has this end.

    ``begin`` is empty for a first batch. KafkaUnavailable where brokers do not answer. A new leader
    may know less for a moment, so it is asked again.
    """
    topics = {topic: number for number, topic in enumerate(sorted(offsets_in(end)))}
    inputs = Inputs(topics=topics, properties=plan.producer)
    first = _first(begin, end)
    brokers = Brokers(inputs.settings().connection)
    try:
        with inputs.errors("did not say how much there is", brokers):
            watch = TopicWatch(brokers, topics)
            for _ in range(LOOKS):
                losses = _losses(watch, first) or _losses(watch, end)
                if not losses:
                    break
                time.sleep(LOOK_SECONDS)
    finally:
        brokers.close()
    return losses


def _first(begin: Position, end: Position) -> Position:
    """Where a batch begins; in a topic that was made again, and this accepted, it begins there."""
    was, now, offsets = logs_in(begin), logs_in(end), dict(begin_of(begin, end))
    again = {t for t, log in now.items() if log.begins and t in was and was[t].id != log.id}
    for topic in again:
        there = offsets_in(end)[topic]
        offsets[topic] = {at: first for at, first in offsets[topic].items() if at in there}
    return position(offsets, {**(was or now), **{topic: now[topic] for topic in again}})


def _losses(watch: TopicWatch, read: Position) -> list[Loss]:
    watch.look_closely()
    found = watch.look(read)
    return [] if found is None else found[1]
