"""A driver's hold on a checkpoint, where only Kafka can keep two copies apart."""

from contextlib import nullcontext

import pytest
from confluent_kafka.admin import AdminClient

from streaming.disciplines.plan import Plan
from streaming.errors import Fenced, KafkaUnavailable
from streaming.sink import producer
from streaming.sink.claim import Claim
from tests.kafka_helpers import create_topics


def claim(broker, prefix):
    names = {role: f"{prefix}{role}" for role in ("output", "rejects", "events")}
    kafka = {"bootstrap.servers": broker.bootstrap}
    plan = Plan(
        service=prefix, pipeline="p", inputs=("in",), partitions={}, producer=kafka, **names
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
    commit, acts = claim._commit, [act]

    def committed(batch):
        if acts:
            acts.pop()()
        commit(batch)

    claim._commit = committed


def test_who_is_overtaken_while_it_begins_does_not_take_it_back(broker, topic_prefix):
    create_topics(broker.bootstrap, {f"{topic_prefix}events": 1})
    first, second = claim(broker, topic_prefix), claim(broker, topic_prefix)
    meanwhile(first, second.take)
    with pytest.raises(Fenced, match="Another copy of this service"):
        first.take()
    second.renew(1)


def test_who_was_idle_for_so_long_that_kafka_has_forgotten_it_goes_on(
    broker, topic_prefix, monkeypatch
):
    create_topics(broker.bootstrap, {f"{topic_prefix}events": 1})
    claim(broker, topic_prefix).take()
    here = claim(broker, topic_prefix)
    here.take()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (forgotten,) = admin.delete_consumer_groups([here._producer.group]).values()
    forgotten.result(30)
    here.take()
    session = here._producer.producer
    here.renew(1)
    assert here._producer.producer == session
    monkeypatch.setattr(producer, "KEPT_SECONDS_MAX", 0.0)
    here.renew(2)
    assert here._producer.producer > session
    claim(broker, topic_prefix).take()
    with pytest.raises(Fenced, match="Another copy of this service"):
        here.renew(3)


def test_a_late_request_of_its_own_does_not_end_who_begins(broker, topic_prefix):
    create_topics(broker.bootstrap, {f"{topic_prefix}events": 1})
    first, same = claim(broker, topic_prefix), claim(broker, topic_prefix)
    meanwhile(first, same._producer.begin_session)
    first.take()
    first.renew(1)


class FencedOften:
    """A producer whose commits are fenced so often; ``committed``: the token of who committed last.

    Another driver commits after so many fences, if there is one.
    """

    def __init__(self, fences, other_after=None):
        self.fences, self.other_after, self.committed, self.sent = fences, other_after, "", ""

    def errors(self, _doing):
        return nullcontext()

    def begin_session(self):
        pass

    begin = begin_session

    def progress(self):
        return 0, self.committed

    progress_of_others = progress
    is_reusable = True

    def send_progress(self, _batch, token):
        self.sent = token

    def finish(self):
        if self.other_after == 0:
            self.committed = "another"
        if self.fences:
            self.fences -= 1
            self.other_after = None if self.other_after is None else self.other_after - 1
            raise Fenced("fenced")
        self.committed = self.sent


def taking(given):
    made = object.__new__(Claim)
    made.token, made.holder, made._producer = "mine", None, given
    return made


def test_who_is_fenced_for_long_by_nobody_takes_it_later():
    """Late requests of its own come for as long as Kafka was away."""
    made = taking(FencedOften(fences=8))
    for _ in range(2):
        with pytest.raises(KafkaUnavailable, match="a late request of its own past"):
            made.take()
    made.take()
    assert made._producer.committed == "mine"


def test_who_is_fenced_for_long_does_not_take_it_from_another():
    made = taking(FencedOften(fences=8, other_after=4))
    with pytest.raises(KafkaUnavailable):
        made.take()
    with pytest.raises(Fenced):
        made.take()
    assert made._producer.committed == "another"
