"""Leaders as most brokers know them: one that is cut off from the others names those of before."""

from types import SimpleNamespace
from uuid import UUID

import pytest
from kafka.errors import KafkaConnectionError, LeaderNotAvailableError
from kafka.future import Future

from streaming.wire.brokers import Brokers

DEPOSED = 0


class Manager:
    """Connections to brokers 0, 1 and 2, some of which are ``away``. The first answers, if any."""

    bootstrapped = True

    def __init__(self, away):
        self.away, self.asked = away, []
        self.cluster = SimpleNamespace(update_metadata=lambda _answer: None)

    def run(self, work, *arguments):
        """Run a coroutine that waits for nothing."""
        with pytest.raises(StopIteration):
            work(*arguments).send(None)

    def send(self, _request, node=DEPOSED):
        """Broker 0 takes itself for the leader of `out`, which broker 1 is."""
        node = DEPOSED if node is None else node
        self.asked.append(node)
        if node in self.away:
            return Future().failure(KafkaConnectionError("away"))
        leader, epoch = (DEPOSED, 3) if node == DEPOSED else (1, 4)
        partition = SimpleNamespace(partition_index=0, leader_id=leader, leader_epoch=epoch)
        topic = SimpleNamespace(
            name="out", topic_id=UUID(int=7), error_code=0, partitions=[partition]
        )
        nodes = [SimpleNamespace(node_id=number) for number in range(3)]
        return Future().success(SimpleNamespace(topics=[topic], brokers=nodes))


@pytest.fixture
def leaders_of(monkeypatch):
    """Who leads `out`, where these brokers are away."""
    monkeypatch.setattr(Brokers, "_open", lambda _self: None)

    def ask(away, **how):
        brokers = Brokers({})
        brokers.manager = Manager(away)
        brokers.find_leaders(["out"], **how)
        return brokers.leaders["out", 0]

    return ask


def test_one_broker_is_believed_where_nothing_rests_on_it(leaders_of):
    assert leaders_of(away=()) == DEPOSED


@pytest.mark.parametrize("away", [(), (1,), (2,)])
def test_the_newest_leader_that_most_brokers_know_counts(leaders_of, away):
    assert leaders_of(away, of_most=True) == 1


def test_a_broker_that_is_cut_off_does_not_answer_for_all(leaders_of):
    with pytest.raises(LeaderNotAvailableError, match="1 of 3 brokers answer"):
        leaders_of(away=(1, 2), of_most=True)
