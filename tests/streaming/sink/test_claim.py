"""A driver's hold on a checkpoint, where only Kafka can keep two copies apart."""

from collections import deque
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import pytest
from confluent_kafka.admin import AdminClient

from streaming.errors import Fenced, KafkaUnavailable
from streaming.sink import producer
from streaming.sink.claim import OWN_MAX, Claim
from tests.streaming.sink.numbered import make_plan


@pytest.fixture
def claim(broker, topic_prefix):
    """Gives a function that makes a claim of one service."""
    return partial(Claim, make_plan(broker, topic_prefix, count=1))


def test_the_last_driver_that_took_it_has_it(claim):
    first, second = claim(), claim()
    first.take()
    for batch in range(3):
        first.renew(batch)
    second.take()
    with pytest.raises(Fenced, match="Another copy of this service"):
        first.renew(3)
    second.renew(3)


def test_who_starts_again_takes_it_only_if_no_other_has(claim):
    first, second = claim(), claim()
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


def test_who_is_overtaken_while_it_begins_does_not_take_it_back(claim):
    first, second = claim(), claim()
    meanwhile(first, second.take)
    with pytest.raises(Fenced, match="Another copy of this service"):
        first.take()
    second.renew(1)


def test_a_session_that_begins_while_the_progress_is_asked_is_its_own(claim):
    """As where a request of who ends a transaction that hides the progress had no answer."""
    mine = claim()
    mine.take()
    progress = mine._producer.progress

    def renewing():
        mine._producer.begin_session()
        return progress()

    mine._producer.progress = renewing
    for _ in range(3):
        mine.take()


def test_who_was_idle_for_so_long_that_kafka_has_forgotten_it_goes_on(claim, broker, monkeypatch):
    claim().take()
    here = claim()
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
    claim().take()
    with pytest.raises(Fenced, match="Another copy of this service"):
        here.renew(3)


def test_a_late_request_of_its_own_does_not_end_who_begins(claim):
    first, same = claim(), claim()
    meanwhile(first, same._producer.begin_session)
    first.take()
    first.renew(1)


class Group:
    """What Kafka knows of a claim: the last session, and what committed last."""

    def __init__(self, committed="", producer=7):
        self.producer, self.session, self.committed = producer, 0, committed

    def renumber(self, producer):
        """Give the transactional id another producer id, whose epochs begin again."""
        self.producer, self.session = producer, -1


class Pretended:
    """A producer of claims on a Group; ``faults`` of its commits, one after the other.

    ``older``: what a coordinator says first that is deposed and does not know.
    """

    is_reusable = True

    def __init__(self, group, faults=(), older=None):
        self.group, self.faults, self.older = group, [*faults], older

    def errors(self, _doing):
        return nullcontext()

    def begin_session(self):
        self.group.session += 1
        self.producer, self.is_reusable = (self.group.producer, self.group.session), True

    def begin(self):
        pass

    def progress(self):
        said, self.older = self.group.committed if self.older is None else self.older, None
        return 0, said

    def progress_of_others(self):
        return 0, self.group.committed

    def send_progress(self, _batch, session):
        self.sent = session

    def finish(self):
        fault = self.faults.pop(0) if self.faults else None
        if callable(fault):
            fault()
            raise KafkaUnavailable("what gave the progress was no longer in charge", "", "")
        if fault == "fenced" or self.producer != (self.group.producer, self.group.session):
            raise Fenced("fenced")
        self.group.committed = self.sent
        if fault == "answer lost":
            self.is_reusable = False
            raise KafkaUnavailable("no answer", "", "")


def taking(producer):
    made = object.__new__(Claim)
    made._own, made._producer = deque(maxlen=OWN_MAX), producer
    return made


def test_who_is_fenced_for_long_by_nobody_takes_it_later():
    """Late requests of its own come for as long as Kafka was away."""
    made = taking(Pretended(Group(), ["fenced"] * 8))
    for _ in range(2):
        with pytest.raises(KafkaUnavailable, match="a late request of its own past"):
            made.take()
    made.take()
    assert made._producer.group.committed == "7/9"


def test_who_is_fenced_for_long_does_not_take_it_from_another():
    group = Group()
    made = taking(Pretended(group, ["fenced"] * 8))
    with pytest.raises(KafkaUnavailable):
        made.take()
    taking(Pretended(group)).take()
    with pytest.raises(Fenced):
        made.take()
    assert group.committed == "7/4"


@pytest.mark.parametrize("before", ["", "7/0", "0f3a-of-an-older-version"])
@pytest.mark.parametrize("fault", ["fenced", "answer lost", lambda: None])
def test_an_older_holder_does_not_count_where_a_newer_is_known(before, fault):
    """Two had it before; a coordinator that is deposed names the older one first."""
    group = Group(before)
    taking(Pretended(group)).take()
    here = taking(Pretended(group, [fault], older=before))
    if fault == "fenced":
        here.take()
    else:
        with pytest.raises(KafkaUnavailable):
            here.take()
        here.take()
    here.renew(1)


def test_who_asked_a_coordinator_that_knows_nothing_goes_on():
    """The holder before had another producer id: it is no newer one (seed 1100105)."""
    here = taking(Pretended(Group("6/9"), [lambda: None], older=""))
    with pytest.raises(KafkaUnavailable):
        here.take()
    here.take()
    here.renew(1)


@pytest.mark.parametrize("fault", ["answer lost", "fenced", "overtaken"])
def test_of_two_the_one_that_began_last_stays(fault):
    """Also where the other one was not told that it has it, or by whom it was overtaken."""
    group = Group("7/0")
    second = taking(Pretended(group))
    first = taking(Pretended(group, [second.take] if fault == "overtaken" else [fault] * 3))
    with pytest.raises(KafkaUnavailable):
        first.take()
    if fault != "overtaken":
        second.take()
    for _ in range(3):
        with pytest.raises(Fenced):
            first.take()
        second._producer.is_reusable = False
        second.renew(1)


LOWER, HIGHER = 3, 1005
"""Producer ids: each broker has a block of its own, so a new one may be lower than the last."""


@pytest.mark.parametrize("producer", [LOWER, HIGHER])
def test_who_begins_with_another_producer_id_takes_it(producer):
    group = Group("7/32766", producer)
    here = taking(Pretended(group, ["answer lost"]))
    with pytest.raises(KafkaUnavailable):
        here.take()
    here.take()
    here.renew(1)
    taking(Pretended(group)).take()
    with pytest.raises(Fenced):
        here.renew(2)


@pytest.mark.parametrize("producer", [LOWER, HIGHER])
def test_who_failed_before_it_committed_under_another_id_takes_it(producer):
    group = Group()
    here = taking(Pretended(group))
    here.take()
    group.renumber(producer)
    here._producer.faults = ["fenced"] * 4
    with pytest.raises(KafkaUnavailable):
        here.take()
    taking(Pretended(group)).take()


@pytest.mark.parametrize("producer", [LOWER, HIGHER])
def test_who_was_overtaken_under_another_id_does_not_take_it_back(producer):
    group = Group()
    first, second = taking(Pretended(group)), taking(Pretended(group))
    first.take()
    group.renumber(producer)
    first.take()
    second.take()
    for _ in range(2):
        with pytest.raises(Fenced):
            first.take()
    second.renew(1)


def test_what_it_noted_last_stays_its_own_however_often_it_begins_again():
    group = Group()
    here = taking(Pretended(group))
    here.take()
    here.take()
    here._producer.faults = [lambda: None] * 2 * OWN_MAX
    for _ in range(2 * OWN_MAX):
        with pytest.raises(KafkaUnavailable):
            here.take()
    here.take()


@pytest.mark.parametrize(
    ("master", "lockable", "needed"),
    [
        (None, True, set()),
        ("local[4]", True, set()),
        ("local[4]", False, {"exactly-once", "at-least-once"}),
        ("spark://host:7077", True, {"exactly-once"}),
        ("k8s://https://host", True, {"exactly-once"}),
    ],
)
def test_it_is_needed_where_a_lock_may_be_lost(master, lockable, needed):
    """At least once on a folder, users have no right to transactions."""
    spark = {} if master is None else {"spark.master": master}
    plans = [SimpleNamespace(delivery=each) for each in ("exactly-once", "at-least-once")]
    found = {each.delivery for each in plans if Claim.is_needed(each, spark, lockable=lockable)}
    assert found == needed
