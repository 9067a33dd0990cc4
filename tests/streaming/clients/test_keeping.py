"""What a producer keeps and knows: against a naive model, at its limits."""

import random
import tracemalloc
from collections import OrderedDict

import pytest

from sequencer.custom_labels import CustomLabels
from sequencer.labels import CyclicLabels, LinearLabels
from streaming.clients import keeping
from streaming.clients.keeping import Kept, Sent, number_ahead, numbers_of

KEYS = (b"a", b"b")


def sent(channel, number, value=b"v"):
    return Sent(channel, number, value, [("label", b"%d" % number)], 7, in_flight=False)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_kept_and_what_never_was_sent(seed):
    """The naive model has a list of everything; nothing is ever both, or said of what fell out."""
    rng = random.Random(seed)
    kept, log, never = Kept(5, bytes_max=8 * (keeping.MESSAGE_BYTES + 10)), [], set()
    dropped = []
    following = dict.fromkeys(KEYS, 0)
    for _ in range(200):
        channel = rng.choice(KEYS)
        number = following[channel] + rng.choice([0, 0, 0, 1, 4])
        if number > following[channel]:
            kept.skip(channel, following[channel], number)
            never |= {(channel, each) for each in range(following[channel], number)}
        following[channel] = number + 1
        message = sent(channel, number)
        kept.keep(message)
        log.append(message)
        if rng.random() < 0.1:
            refused = rng.choice(log[-5:])
            is_there = refused in kept.sent(refused.channel, 0, 10**6)
            kept.drop(refused)
            if is_there:
                dropped.append(refused)
                never.add((refused.channel, refused.number))
        for key in KEYS:
            first = rng.randrange(following[key] + 1)
            found = [each.number for each in kept.sent(key, first, 10**6)]
            mine = [each for each in log if each.channel == key and each not in dropped][-5:]
            assert found == sorted(found)
            assert set(found) <= {each.number for each in mine if each.number >= first}
            gone = {(key, n) for a, b in kept.unsent(key, first, 10**6) for n in range(a, b)}
            assert gone == {each for each in never if each[0] == key and each[1] >= first}
            assert not gone & {(key, n) for n in found}
        assert len(kept) <= 10
        assert kept.size <= kept.bytes_max
    assert len(kept) == 8, "the bound on all of them counts"


def test_one_in_flight_is_not_sent_again_and_one_refused_never():
    kept, one, two = Kept(5), sent(b"a", 0), sent(b"a", 1)
    one.in_flight = True
    kept.keep(one)
    kept.keep(two)
    kept.drop(two)
    assert list(kept.sent(b"a", 0, 9)) == []
    assert kept.unsent(b"a", 0, 9) == [(1, 2)]


def test_the_bound_is_that_of_memory_and_the_oldest_is_found_at_once():
    """Also of small messages, and after very many have gone."""
    kept, count = Kept(10**6, bytes_max=8 * 2**20), 25_000
    tracemalloc.start()
    for number in range(count):
        headers = [("label", b"%d" % number), ("epoch", b"%d" % (1 << 40))]
        kept.keep(Sent(b"c", number, b"%010d" % number, headers, (1 << 40) + number))
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.7 * kept.bytes_max < taken < 1.1 * kept.bytes_max
    assert type(kept._messages) is OrderedDict


def test_channels_of_which_nothing_is_kept_take_no_memory(monkeypatch):
    monkeypatch.setattr(keeping, "UNSENT_MAX", 1_000)
    kept = Kept(1, bytes_max=2 * 2**20)
    tracemalloc.start()
    for number in range(30_000):
        kept.keep(sent(b"%d" % number, 1))
        kept.skip(b"%d" % number, 0, 1)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 3 * kept.bytes_max


def test_so_many_ranges_are_remembered(monkeypatch):
    monkeypatch.setattr(keeping, "UNSENT_MAX", 3)
    kept = Kept(5)
    for n in range(4):
        kept.skip(b"a", 2 * n, 2 * n + 1)
    assert kept.unsent(b"a", 0, 99) == [(2, 3), (4, 5), (6, 7)]


def test_numbers_of_labels():
    custom = CustomLabels("L0", lambda text: f"L{int(text[1:]) + 1}")
    assert numbers_of(LinearLabels(10, 5), 15, 30, 9) == (1, 4)
    assert numbers_of(LinearLabels(10, 5), 16, 30, 9) is None
    assert numbers_of(LinearLabels(), "x", None, 9) is None
    assert numbers_of(CyclicLabels(8), 6, 1, 20) == (14, 17)
    assert numbers_of(CyclicLabels(8), 2, 5, 20) == (10, 13)
    assert numbers_of(custom, "L1", "L3", 9) == (1, 3)
    assert numbers_of(custom, "L1", "no", 9) is None


def test_labels_ascend():
    assert number_ahead(LinearLabels(), 7, None) == 7
    assert number_ahead(LinearLabels(), 7, 7) == 7
    assert number_ahead(LinearLabels(), 6, 7) is None
    assert number_ahead(LinearLabels(), "6", 5) is None
    assert number_ahead(CyclicLabels(8), 1, 22) == 25
    assert number_ahead(CyclicLabels(8), 5, 22) is None
    assert number_ahead(object(), 5, 22) is None
