import random

import pytest

from sequencer import CustomLabels, CyclicLabels, LabelProxy, LinearLabels, OrderedProxy
from sequencer.proxy import Arrival

SEQUENCES = [
    LinearLabels(3, 2),
    CyclicLabels(64, 5, 3),
    CustomLabels("0", lambda t: str(int(t) + 7)),
]


def test_the_fixture_of_the_text():
    out = []
    proxy = OrderedProxy(out.append, LinearLabels())
    for arrival in [(3, "w"), (1, "y"), (2, "x"), (0, "z")]:
        proxy(arrival)
    assert out == ["z", "y", "x", "w"]


@pytest.mark.parametrize("seed", range(200))
def test_source_net_and_proxy_restore_the_list(seed):
    """src → net (a random delay for each message) → ordered proxy."""
    rng = random.Random(seed)
    labels = rng.choice(SEQUENCES)
    net = []
    source = LabelProxy(lambda pair: net.append((rng.uniform(0, 8) + len(net), pair)), labels)
    for letter in "abcdefghijk" * 5:
        source(letter)
    out = []
    proxy = OrderedProxy(out.append, labels)
    for _, pair in sorted(net, key=lambda each: each[0]):
        proxy(pair)
    assert "".join(out) == "abcdefghijk" * 5
    assert proxy.held == 0


def test_a_missing_label_holds_all_that_follow_it_up_to_the_bound():
    out = []
    proxy = OrderedProxy(out.append, LinearLabels(), held_max=3)
    for label in (2, 3, 4):
        assert proxy((label, label)) is Arrival.HELD
    assert proxy((5, 5)) is Arrival.BUFFER_FULL
    assert proxy((0, 0)) is Arrival.DELIVERED
    assert out == [0]
    proxy((1, 1))
    assert out == [0, 1, 2, 3, 4]
    assert proxy((1, 1)) is Arrival.DUPLICATE


def test_a_cycle_shorter_than_what_is_in_transit():
    """Detected where two messages of one label are held; not where the first has gone through."""
    labels = CyclicLabels(8)
    proxy = OrderedProxy(lambda _: None, labels)
    proxy((1, "1"))
    assert proxy((1, "9, a turn later")) is Arrival.CONFLICT
    out = []
    proxy = OrderedProxy(out.append, labels)
    for n in range(6):
        proxy((n, str(n)))
    proxy((0, "16"))  # two turns later, and nothing tells it from 8
    proxy((6, "6"))
    proxy((7, "7"))
    assert out[-1] == "16"


def test_the_label_advances_only_when_sending_worked():
    calls = []

    def send(pair):
        calls.append(pair[0])
        if len(calls) == 1:
            raise OSError

    proxy = LabelProxy(send, LinearLabels())
    with pytest.raises(OSError):  # noqa: PT011
        proxy("a")
    proxy("a")
    assert calls == [0, 0]
