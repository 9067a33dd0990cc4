"""What cannot work is a sentence, and librdkafka keeps its lines to itself."""

import pytest

from streaming import GroupPublisher, LabelledProducer, MulticastSender, OrderedConsumer
from streaming.errors import ConfigError

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: LabelledProducer({"boostrap.servers": "x"}, "t"), "boostrap.servers"),
        (lambda: OrderedConsumer({**NOBODY, "fetch.min": 1}, ["t"], group="g"), "fetch.min"),
        (lambda: OrderedConsumer(NOBODY, "t", group="g"), "a list of topics is meant"),
        (lambda: OrderedConsumer(NOBODY, ["t"], group="g", discipline="chanel"), "no discipline"),
        (lambda: GroupPublisher(NOBODY, "t", ""), "A sender needs a name."),
        (lambda: MulticastSender(NOBODY, "t", b""), "A sender needs a name."),
    ],
)
def test_a_wrong_call_is_a_sentence(make, said):
    with pytest.raises(ConfigError, match=said):
        make()


def test_a_kafka_that_is_away_floods_nobody(capfd):
    with OrderedConsumer(NOBODY, ["t"], group="g") as consumer:
        assert consumer.poll(0.5) is None
    assert capfd.readouterr().err == ""
