import random

import pytest

from sequencer import CustomLabels, CyclicLabels, LabelProxy, LinearLabels, OrderedProxy
from sequencer.proxy import BufferFull, Duplicate


def test_the_fixture_of_the_text():
    out = []
    proxy = OrderedProxy(out.append, LinearLabels())
    for label, message in [(3, "w"), (1, "y"), (2, "x"), (0, "z")]:
        proxy(label, message)
    assert out == ["z", "y", "x", "w"]


SEQUENCES = [
    LinearLabels(3, 2),
    CyclicLabels(32, 5, 3),
    CustomLabels("0", lambda t: str(int(t) + 7)),
]


@pytest.mark.parametrize("seed", range(200))
def test_source_net_and_proxy_restore_the_list(seed):
    """src → net (a random delay for each message) → ordered proxy."""
    rng = random.Random(seed)
    labels = rng.choice(SEQUENCES)
    net = []
    source = LabelProxy(
        lambda label, message: net.append((rng.uniform(0, 8) + len(net), label, message)), labels
    )
    for letter in "abcdefghijk" * 5:
        source(letter)
    out = []
    proxy = OrderedProxy(out.append, labels)
    for _, label, message in sorted(net, key=lambda each: each[0]):
        proxy(label, message)
    assert "".join(out) == "abcdefghijk" * 5
    assert proxy.held == 0


def test_a_missing_label_holds_all_that_follow_it_up_to_the_bound():
    out = []
    proxy = OrderedProxy(out.append, LinearLabels(), held_max=3)
    for label in (2, 3, 4):
        proxy(label, label)
    with pytest.raises(BufferFull):
        proxy(5, 5)
    proxy(0, 0)
    assert out == [0]
    proxy(1, 1)
    assert out == [0, 1, 2, 3, 4]


def test_a_cycle_shorter_than_what_is_in_transit():
    """Detected where two messages of one label are held; not where the first has gone through."""
    labels = CyclicLabels(4)
    proxy = OrderedProxy(lambda _: None, labels)
    proxy(1, "one")
    with pytest.raises(Duplicate):
        proxy(1, "five, a turn later")
    out = []
    proxy = OrderedProxy(out.append, labels)
    for label, message in [(0, "0"), (1, "1"), (2, "2"), (2, "6"), (3, "3")]:
        proxy(label, message)
    assert out == ["0", "1", "2", "3"]  # "6" came a turn early and looks like a message to come
    for label, message in [(0, "4"), (1, "5")]:
        proxy(label, message)
    assert out[-1] == "6"


def test_the_label_advances_only_when_sending_worked():
    calls = []

    def send(label, _message):
        calls.append(label)
        if len(calls) == 1:
            raise OSError

    proxy = LabelProxy(send, LinearLabels())
    with pytest.raises(OSError):  # noqa: PT011
        proxy("a")
    proxy("a")
    assert calls == [0, 0]
