"""A driver's hold on a checkpoint, where only Kafka can keep two copies apart."""

import pytest

from streaming.disciplines.plan import Plan
from streaming.errors import Fenced
from streaming.sink.claim import Claim
from tests.kafka_helpers import create_topics


def claim(broker, prefix):
    names = {role: f"{prefix}{role}" for role in ("output", "rejects", "events")}
    producer = {"bootstrap.servers": broker.bootstrap}
    plan = Plan(
        service=prefix, pipeline="p", inputs=("in",), partitions={}, producer=producer, **names
    )
    return Claim(plan)


def test_the_last_driver_that_took_it_has_it(broker, topic_prefix):
    create_topics(broker.bootstrap, {f"{topic_prefix}events": 1})
    first, second = claim(broker, topic_prefix), claim(broker, topic_prefix)
    first.take()
    for batch in range(3):
        first.renew(batch)
    second.take()
    with pytest.raises(Fenced, match="Another copy of this service"):
        first.renew(3)
    second.renew(3)


def test_who_starts_again_takes_it_only_if_no_other_has(broker, topic_prefix):
    create_topics(broker.bootstrap, {f"{topic_prefix}events": 1})
    first, second = claim(broker, topic_prefix), claim(broker, topic_prefix)
    first.take()
    first.renew(0)
    first.take()
    first.renew(1)
    second.take()
    with pytest.raises(Fenced, match="Another copy of this service"):
        first.take()
    second.renew(0)


def meanwhile(claim, act):
    """Have something happen between the two steps of taking it, once."""
    renew, acts = claim.renew, [act]

    def renewed(batch):
        if acts:
            acts.pop()()
        renew(batch)

    claim.renew = renewed


def test_who_is_overtaken_while_it_begins_does_not_take_it_back(broker, topic_prefix):
    create_topics(broker.bootstrap, {f"{topic_prefix}events": 1})
    first, second = claim(broker, topic_prefix), claim(broker, topic_prefix)
    meanwhile(first, second.take)
    with pytest.raises(Fenced, match="Another copy of this service"):
        first.take()
    second.renew(1)


def test_a_late_request_of_its_own_does_not_end_who_begins(broker, topic_prefix):
    create_topics(broker.bootstrap, {f"{topic_prefix}events": 1})
    first, same = claim(broker, topic_prefix), claim(broker, topic_prefix)
    meanwhile(first, same._producer.begin_session)
    first.take()
    first.renew(1)
