"""A link over carriers that lose, repeat and reorder: all payloads, once, in order."""

from __future__ import annotations

import random

import pytest

from sequencer.groups.network.links import Ack, Frame, Input, LinkFullError, Output


def carried(seed, count=40, window=8, loss=0.3):
    rng = random.Random(seed)
    output, receiving = Output(window_max=window, retry_ms=50), Input(window_max=window)
    forth, back, got, now, offered = [], [], [], 0, 0
    while offered < count or output.waiting:
        now += rng.randint(0, 40)
        if offered < count:
            try:
                forth.append(output.send(offered, now))
                offered += 1
            except LinkFullError:
                assert len(output.waiting) == window
        forth.extend(output.tick(now))
        for line, handle in ((forth, "frame"), (back, "ack")):
            for _ in range(rng.randint(0, len(line))):
                one = line.pop(rng.randrange(len(line)))
                for _ in range(rng.choice([0, 1, 1, 2]) if rng.random() < loss else 1):
                    if handle == "frame":
                        out, ack = receiving.receive(one)
                        got.extend(out)
                        back.append(ack)
                    else:
                        output.acknowledge(one)
        assert now < 1_000_000, "no progress"
    return got


@pytest.mark.parametrize("seed", range(200))
def test_all_payloads_come_once_and_in_order(seed):
    assert carried(seed) == list(range(40))


def test_a_window_of_one_is_enough():
    assert carried(1, window=1) == list(range(40))


def test_retries_grow_to_a_limit_and_never_end():
    output = Output(retry_ms=100, retry_max_ms=300)
    assert output.next_due_ms() is None
    frame = output.send("x", 0)
    due = []
    for _ in range(5):
        now = output.next_due_ms()
        assert output.tick(now - 1) == ()
        assert output.tick(now) == (frame,)
        due.append(now)
    assert due == [100, 300, 600, 900, 1200]
    assert output.acknowledge(Ack(1)) == 1
    assert output.tick(10_000) == ()


def test_the_limit_of_the_output_and_one_past_it():
    output = Output(window_max=2)
    assert [output.send(payload, 0).number for payload in "ab"] == [0, 1]
    with pytest.raises(LinkFullError, match="not taken"):
        output.send("c", 0)
    output.acknowledge(Ack(1))
    assert output.send("c", 0) == Frame(2, "c")


def test_the_limit_of_the_input_and_one_past_it():
    receiving = Input(window_max=2)
    assert receiving.receive(Frame(1, "b")) == ((), Ack(0))
    assert receiving.receive(Frame(2, "c")) == ((), Ack(0))
    assert receiving.receive(Frame(0, "a")) == (("a", "b"), Ack(2))
    assert receiving.receive(Frame(2, "c")) == (("c",), Ack(3))
    assert receiving.receive(Frame(0, "a")) == ((), Ack(3))


def test_old_and_foreign_acknowledgments():
    output = Output()
    output.send("a", 0)
    assert output.acknowledge(Ack(1)) == 1
    assert output.acknowledge(Ack(0)) == 0
    with pytest.raises(ValueError, match="nothing was dropped"):
        output.acknowledge(Ack(2))
