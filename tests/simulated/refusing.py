"""Records that Kafka refuses for good: too large for a topic, or of a kind that it does not take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from kafka.record.default_records import DefaultRecordBatch

from tests.simulated import judge
from tests.simulated.pipelines import verified_channels
from tests.simulated.world import BEGAN_MS

TOO_LARGE, BAD_STAMP, POLICY, BAD_RECORD = 10, 32, 44, 87
MARK = b"~refuse"
STAMP_MAX_MS = BEGAN_MS + 86_400_000


def is_marked(record):
    """Whether a record's value has the mark."""
    return MARK in (record.value or b"")


RULES = {
    "marked": is_marked,
    "marked with an odd key": lambda record: (
        record.key and record.key[-1] % 2 and is_marked(record)
    ),
    "of tomorrow": lambda record: record.timestamp > STAMP_MAX_MS,
    "without a key": lambda record: record.key is None,
}
"""Kinds of records that a topic may not take."""
KINDS = tuple(RULES)[:-1]
"""Those of which less can be written to a topic of rejects."""
BYTES_MAX = 500
"""More than the head of a batch, the service's headers and a reject's without its value need."""
FEW_BYTES_MAX = (100, 200, 300)
"""Too few for most records, so that the service has to wait until the topic takes more."""
SIZES = (150, 300, 600)
"""Bytes added to a large value: the first fits into every batch of its own, the last into none."""
BROKERS = 3


@dataclass(frozen=True, slots=True)
class Limit:
    """What a topic takes: a batch's bytes, and by which of RULES it refuses, each with its code.

    ``naming``: the brokers that say which records they refuse (KIP-467).
    """

    bytes_max: int
    codes: Mapping[str, int]
    naming: frozenset[int]

    def refusal(self, data, broker):
        """The error code for a batch (0: it is taken), the records' places, and the records.

        Both are empty where the broker does not say which; one record is known without that.
        """
        records = list(DefaultRecordBatch(data))
        if len(data) > self.bytes_max:
            return TOO_LARGE, [], records if len(records) == 1 else []
        found = {
            at: code
            for at, each in enumerate(records)
            for kind, code in self.codes.items()
            if RULES[kind](each)
        }
        if not found:
            return 0, [], []
        code = found[min(found)]
        if broker in self.naming:
            return code, sorted(found), [records[at] for at in found]
        return code, [], records if len(records) == 1 else []


def limit(rng, bytes_max, kinds=KINDS):
    """A limit with some of these rules."""
    codes = {"of tomorrow": BAD_STAMP, "without a key": BAD_RECORD}
    by_policy = rng.choice([POLICY, BAD_RECORD])
    some = {kind: codes.get(kind, by_policy) for kind in kinds if rng.random() < 0.5}
    naming = frozenset(number for number in range(BROKERS) if rng.random() < 0.5)
    return Limit(bytes_max, some, rng.choice([naming, frozenset(range(BROKERS)), frozenset()]))


def refuse_some(pipeline, kafka, rng):
    """Have topics of a pipeline refuse some of what its users send, which is made so."""
    outputs = list(pipeline.outputs)
    if len(outputs) > 1 and rng.random() < 0.5:
        outputs = rng.sample(outputs, 2)
    of_outputs = limit(rng, BYTES_MAX)
    kafka.limits = dict.fromkeys(outputs, of_outputs)
    if rng.random() < 0.5:
        same = rng.random() < 0.5
        kafka.limits["rejects"] = of_outputs if same else limit(rng, BYTES_MAX)
    if pipeline.faults_of is judge.channel_faults:
        pipeline.faults_of = both
    shares = [0.02, 0.1, 0.3] if pipeline.plan.discipline == "channel" else [0.3, 0.6]
    share = rng.choice(shares)
    for _, topic, _, records in pipeline.sends:
        if topic == "in":
            records[:] = [_changed(record, share, rng) for record in records]


def both(records, finished):
    """What the model of channels finds, and `sequencer verify`.

    Where the service ended in a batch, it had written deliveries behind a label whose reject and
    whose gap were to come.
    """
    if not finished:
        return []
    return judge.channel_faults(records, finished) + verified_channels(records, finished)


def _changed(record, share, rng):
    """A record as it was, marked, of tomorrow, or with more in its value."""
    stamp, key, value, headers = record
    if value is None or rng.random() >= share:
        return record
    more = rng.choice([MARK, MARK, MARK, b"", *(rng.randbytes(size) for size in SIZES)])
    return stamp if more else 2 * STAMP_MAX_MS - BEGAN_MS, key, value + more, headers


# --- Faults that come to a history ---


def narrowed(history, rng):
    """A topic takes less for a while."""
    topic = rng.choice([*history.pipeline.outputs, "rejects", "rejects", "events", "transit"])
    small = limit(rng, rng.choice([*FEW_BYTES_MAX, BYTES_MAX]), tuple(RULES))
    seconds = rng.choice([0.5, 2, 10])
    there = history.kafka.narrowed

    def act():
        history.heal_after(seconds)
        there[topic] = small
        history.world.at(seconds, partial(there.pop, topic, None))

    kinds = "".join(f", none {kind}" for kind in small.codes)
    return f"{topic} takes {small.bytes_max} bytes{kinds}, for {seconds} s", act


def widened(history, _rng):
    """Topics take everything from now on."""
    return "topics take everything", history.kafka.limits.clear


REFUSALS = (narrowed, narrowed, narrowed, widened)
