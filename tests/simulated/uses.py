"""Pipelines with all that their files may say, and commands of users and operators.

Channels have any rules, sequences of labels and commands; members of groups and owners of nodes
give commands among their messages, and get notices. Their state may be moved (`moves`).
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import partial

from streaming.disciplines.multicast.plan import MulticastPlan
from tests.simulated import members, ruled

FROM = 8_000_000
"""From this seed on histories have them."""
NAME = re.compile("name='([a-z-]+)'")
OF_RUNS = frozenset(
    [
        "answered-twice",
        "event-repeat",
        "reject-repeat",
        "unasked-gap",
        "unfounded-gap",
        "wrong-after",
        "wrong-count",
        "wrong-event",
        "wrong-gap",
        "wrong-reason",
        "wrong-undelivered",
    ]
)
"""Faults of what runs of a batch say before the last one."""


@dataclass(frozen=True)
class Uses:
    """What a history has of it.

    ``pipeline``: its name. ``refuses``: whether Kafka refuses some records; ``repeats``: whether
    deliveries are made at least once. ``lives``: whether it has what `long_lives` has, too.
    ``moves``: whether its state may be moved. ``cleaned_ms``: for how long what is in transit stays
    when it was read; None: for ever.
    """

    pipeline: str
    refuses: bool
    repeats: bool
    lives: bool
    moves: bool
    cleaned_ms: int | None


def drawn(seed, aim):
    """What a seed's history has; None where it is none of these."""
    if seed < FROM and aim.pipeline not in PIPELINES:
        return None
    rng = random.Random(f"uses {seed}")
    return Uses(
        aim.pipeline or rng.choice(DRAWN),
        refuses=rng.random() < 0.3,
        repeats=rng.random() < 0.15,
        lives=rng.random() < 0.3,
        moves=rng.random() < 0.5 or "is moved" in aim.faults,
        cleaned_ms=rng.choice([None, 0, 0, 500]),
    )


def takes_long(history):
    """Whether a name may be forgotten before what ends it has its place in the order."""
    is_one = history.uses is not None or history.backed_up or history.chained
    return bool(is_one) and isinstance(history.pipeline.plan, MulticastPlan)


def judge_deliveries(pipeline):
    """Judge deliveries alone, where nothing says which run of a batch was the last.

    Rejects and events of a run before that, which knew less of what Kafka refuses, stay.
    """
    made = pipeline.faults_of
    pipeline.faults_of = partial(of_deliveries, made.func, *made.args)


def of_deliveries(judge_of, *arguments):
    """What a judge finds, but for faults of runs before the last."""
    found = judge_of(*arguments)
    return [each for each in found if OF_RUNS.isdisjoint(NAME.findall(each))]


PIPELINES = {
    "ruled": ruled.ruled,
    "joined": members.joined,
    "joined network": members.joined_network,
    "owned": members.owned,
    "owned clock": partial(members.owned_protocol, "clock"),
    "owned counter": partial(members.owned_protocol, "counter"),
}
DRAWN = ("ruled", "ruled", "ruled", *PIPELINES)
TOPICS = {"ruled": ruled.TOPICS}
