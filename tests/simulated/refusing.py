"""Records that Kafka refuses for good: too large for a topic, or of a kind that it does not take."""

from __future__ import annotations

from dataclasses import dataclass

from kafka.record.default_records import DefaultRecordBatch

from tests.simulated.pipelines import channel_faults

TOO_LARGE, INVALID_RECORD = 10, 87
MARK = b"~refuse"
"""A record with this in its value is refused by topics with such a rule."""
BYTES_MAX = 500
"""More than the head of a batch, the service's headers and a reject's without its value need."""
SIZES = (150, 300, 600)
"""Bytes added to a large value: the first fits into every batch of its own, the last into none."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What a topic takes; ``is_marked``: no marked records. ``names``: it says which (KIP-467)."""

    bytes_max: int
    is_marked: bool
    names: bool

    def refusal(self, data):
        """The error code for a batch, 0 where the topic takes it, and the records that it names."""
        if len(data) > self.bytes_max:
            return TOO_LARGE, []
        if not self.is_marked:
            return 0, []
        refused = [
            at for at, each in enumerate(DefaultRecordBatch(data)) if MARK in (each.value or b"")
        ]
        return (INVALID_RECORD if refused else 0), refused if self.names else []


def refuse_some(pipeline, kafka, rng):
    """Have topics of a pipeline refuse some of what its users send, which is made so."""
    topics = rng.choice([["out"], ["out", "rejects"]])
    limit = Limit(BYTES_MAX, is_marked=rng.random() < 0.5, names=rng.random() < 0.5)
    kafka.limits = dict.fromkeys(topics, limit)
    share = rng.choice([0.02, 0.1, 0.3])
    for _, topic, _, records in pipeline.sends:
        if topic == "in":
            records[:] = [_changed(record, share, rng) for record in records]
    if pipeline.plan.discipline == "channel":
        pipeline.faults_of = channel_faults


def _changed(record, share, rng):
    """A record as it was, marked, or with more in its value."""
    stamp, key, value, headers = record
    if value is None or rng.random() >= share:
        return record
    more = rng.choice([MARK, *(rng.randbytes(size) for size in SIZES)])
    return stamp, key, value + more, headers
