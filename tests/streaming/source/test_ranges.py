"""What a batch reads: all of it, once, and in shares that are about equal."""

from hypothesis import given
from hypothesis import strategies as st

from streaming.source.ranges import limited, ranges, shared

NUMBERS = {"a": 1, "b": 0}
offset = st.integers(0, 500)
partition = st.sampled_from(["0", "1", "2", "10"])
topics = st.fixed_dictionaries(
    {}, optional={"a": st.dictionaries(partition, offset), "b": st.dictionaries(partition, offset)}
)


def ends_behind(start, draw):
    """Ends behind what was read, with partitions that are new."""
    found = {
        topic: {at: read + draw(st.integers(0, 300)) for at, read in of.items()}
        for topic, of in start.items()
    }
    for topic, of in draw(topics).items():
        for at, end in of.items():
            found.setdefault(topic, {}).setdefault(at, end)
    return found


def places(start, end):
    return {
        (topic, int(at), offset)
        for topic, of in end.items()
        for at, stop in of.items()
        for offset in range(start.get(topic, {}).get(at, 0), stop)
    }


@given(start=topics, draw=st.data(), most=st.integers(0, 400))
def test_batches_come_to_the_ends(start, draw, most):
    ends = ends_behind(start, draw.draw)
    at, left = start, len(places(start, ends))
    while True:
        after = limited(at, ends, most)
        assert {topic: set(of) for topic, of in after.items()} == {
            topic: set(of) for topic, of in ends.items() if of
        }
        size = len(places(at, after))
        if most == 0 or left <= most:
            assert after == {topic: of for topic, of in ends.items() if of}
        else:
            partitions = sum(map(len, ends.values()))
            assert 0 < size <= most + partitions
            assert size >= most
        if not size:
            break
        at, left = after, left - size
    assert left == 0


@given(start=topics, draw=st.data(), tasks=st.integers(1, 5))
def test_shares(start, draw, tasks):
    end = ends_behind(start, draw.draw)
    whole = ranges(start, end, NUMBERS)
    assert [(each.number, each.partition) for each in whole] == sorted(
        (each.number, each.partition) for each in whole
    )
    shares = list(shared(whole, tasks))
    found = [
        (each.topic, each.partition, offset)
        for share in shares
        for each in share
        for offset in range(each.first, each.stop)
    ]
    assert len(found) == len(set(found))
    assert set(found) == places(start, end)
    assert len(shares) <= tasks
    assert all(shares)
    fair = -(-len(found) // tasks)
    for share in shares:
        assert len({each.home for each in share}) == len(share)  # a request names each once
        assert sum(map(len, share)) <= max(fair * 1.5, 1)
