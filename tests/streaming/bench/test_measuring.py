"""What the bench sends; the measuring itself is run by `tests/spark/test_bench_live.py`."""

from collections import defaultdict
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from streaming.bench.measuring import BLOCK, Wanted, labels


@given(st.integers(1, 3_000), st.integers(1, 200))
def test_every_channel_gets_each_of_its_labels_once(messages, channels):
    wanted = Wanted.of(messages, channels, 0, 1, 0)
    sent = defaultdict(list)
    for channel, label in islice(labels(wanted.channels), wanted.messages):
        sent[channel].append(label)
    assert len(sent) == wanted.channels <= channels
    for found in sent.values():
        assert sorted(found) == list(range(len(found)))
    assert wanted.messages <= max(messages, BLOCK)


def test_labels_are_out_of_order():
    found = [label for channel, label in islice(labels(7), 7 * BLOCK) if channel == 0]
    assert found != sorted(found)
