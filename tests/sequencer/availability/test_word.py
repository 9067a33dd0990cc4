import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.availability import word as av
from sequencer.availability.atomic import AtomicWord
from sequencer.availability.concurrent import Availability
from sequencer.availability.word import BITS, ID_MAX, Result

PUBLISHED_ONLY = st.integers(1, BITS)


class NaiveTopic:
    """A counter, and the set of all ids ever published; ``first`` is the topic's lowest id."""

    def __init__(self, window, last=0, first=0):
        self.window, self.last, self.first = window, max(last, first), first
        self.published = set(range(first, last))

    @property
    def floor(self):
        return max(self.first, self.last - self.window)

    def reserve(self, i):
        if i > ID_MAX:
            return Result.EXHAUSTED
        if i < self.floor:
            return Result.OLD
        if i in self.published:
            return Result.DUPLICATE
        lost = [x for x in range(self.floor, i + 1 - self.window) if x not in self.published]
        if lost:
            return Result.FULL
        self.last = max(self.last, i + 1)
        return Result.DONE

    def publish(self, i):
        if i >= self.last:
            return Result.UNRESERVED
        if i < self.floor:
            return Result.OLD
        if i in self.published:
            return Result.DUPLICATE
        self.published.add(i)
        return Result.DONE

    def ids(self):
        return [i for i in range(self.floor, self.last) if i in self.published]

    def view(self):
        ids = self.ids()
        return {
            "begin": ids[0] if ids else self.floor,
            "end": ids[-1] + 1 if ids else self.floor,
            "frontier": next(
                (i for i in range(self.floor, self.last) if i not in self.published), self.last
            ),
            "last": self.last,
        }


def steps():
    """(publish?, id relative to the next one); None reserves the next id."""
    return st.lists(st.tuples(st.booleans(), st.one_of(st.none(), st.integers(-20, 20))))


def run(topic, word, publish, distance):
    """One step on the model and on a word; returns both results and the id."""
    window = topic.window
    i = topic.last if distance is None else max(0, topic.last + distance)
    if publish:
        new, result = av.make_available(word, i, window, topic.first)
        return topic.publish(i), result, new, i
    transition = av.reserve_next(word, window, topic.first) if distance is None else None
    new, result = transition or av.reserve(word, i, window, topic.first)
    return topic.reserve(i), result, new, i


@given(PUBLISHED_ONLY, st.integers(0, 40), st.sampled_from([0, 1, 985, 1000]), steps())
def test_the_word_agrees_with_a_counter_and_a_set(window, published, first, script):
    topic = NaiveTopic(window, first + published, first)
    word = topic.last << BITS | (1 << min(published, window)) - 1
    end = 0
    for publish, distance in script:
        want, got, word, i = run(topic, word, publish, distance)
        assert got == want, (i, topic.view())
        view = topic.view()
        assert {
            "begin": av.begin(word, window, first),
            "end": av.end(word, window, first),
            "frontier": av.frontier(word, window, first),
            "last": word >> BITS,
        } == view
        tracked = [x for x in range(topic.last + 2) if av.is_available(word, x)]
        assert tracked == topic.ids()
        assert set(range(first, topic.floor)) <= topic.published, (
            "an unpublished id left the bitmap"
        )
        assert view["end"] >= end, "end went back"
        end = view["end"]


@given(st.integers(1, BITS), st.lists(steps(), min_size=1, max_size=8), st.data())
def test_arrays_of_words_make_the_same_transitions(window, scripts, data):
    words, firsts = [], []
    for script in scripts:
        first = data.draw(st.sampled_from([0, 7, 1000]))
        topic, word = NaiveTopic(window, first=first), first << BITS
        for publish, distance in script:
            _, _, word, _ = run(topic, word, publish, distance)
        words.append(word)
        firsts.append(first)
    firsts.append(2**40)
    words.append((2**48 - 1) << BITS | (1 << window) - 1)  # exhausted
    arrays = np.array(words, np.uint64)
    near = [word >> BITS for word in words]
    ids = [max(0, n + data.draw(st.integers(-20, 20))) for n in near]
    array = np.array(ids, np.uint64)

    def same(function, *vectors):
        got = function(
            *(np.array(v, np.uint64) for v in vectors), window, np.array(firsts, np.uint64)
        )
        rows = zip(zip(*vectors, strict=True), firsts, strict=True)
        want = [function(*row, window, first) for row, first in rows]
        if isinstance(got, tuple):
            assert [list(x) for x in zip(*want, strict=True)] == [x.tolist() for x in got]
            assert all(x.dtype == np.uint64 for x in got)
        else:
            assert got.tolist() == want
            assert got.dtype == np.uint64

    same(av.reserve_next, words)
    same(av.reserve, words, ids)
    same(av.make_available, words, ids)
    for function in (av.begin, av.end, av.frontier, av.floor):
        same(function, words)
    one_by_one = [av.is_available(w, i) for w, i in zip(words, ids, strict=True)]
    assert av.is_available(arrays, array).tolist() == one_by_one


def test_the_examples_of_the_text():
    example = Availability(word=10 << 16 | 0b0000000000010101)
    there = [i for i in range(12) if example.is_available(i)]
    assert there == [5, 7, 9]
    assert (example.last, example.bitmap, example.begin, example.end) == (10, 0b10101, 5, 10)

    late = Availability(word=4 << 16 | 0b1111)  # message 5 arrives before message 4
    assert late.try_reserve(5)
    assert late.try_make_available(5)
    assert (late.is_available(4), late.is_available(5), late.frontier, late.end) == (
        False,
        True,
        4,
        6,
    )
    assert late.try_reserve(4)
    assert late.try_make_available(4)
    assert (late.frontier, late.try_reserve_next()) == (6, 6)


def test_the_17th_unpublished_id_is_refused_and_nothing_is_lost():
    topic = Availability()
    assert [topic.try_reserve_next() for _ in range(16)] == list(range(16))
    before = topic.word
    assert topic.try_reserve_next() is None
    assert topic.reserve(16) is Result.FULL
    assert topic.word == before
    for i in range(15, 0, -1):
        assert topic.try_make_available(i)
        assert topic.try_reserve_next() is None  # id 0 is still being written
    assert (topic.begin, topic.end, topic.frontier) == (1, 16, 0)
    assert topic.try_make_available(0)
    assert topic.try_reserve_next() == 16
    assert not topic.is_available(0)  # its bit went; it was published
    assert topic.make_available(0) is Result.OLD
    assert topic.reserve(0) is Result.OLD


def test_a_window_below_16_refuses_earlier_and_forgets_earlier():
    topic = Availability(window=3)
    assert [topic.try_reserve_next() for _ in range(4)] == [0, 1, 2, None]
    assert topic.try_make_available(0)
    assert topic.try_reserve_next() == 3
    assert topic.bitmap == 0
    assert (topic.begin, topic.end) == (1, 1)  # nothing there; 1 is the next that can come
    assert topic.try_make_available(3)
    assert (topic.begin, topic.end, topic.frontier) == (3, 4, 1)


def test_an_id_far_ahead_is_refused_because_the_ids_between_would_be_lost():
    topic = Availability()
    assert topic.try_reserve(15)
    assert topic.reserve(16) is Result.FULL  # 0 would leave
    other = Availability(first=0)
    before = other.word
    assert other.preview(16) is other.reserve(16) is Result.FULL
    assert other.word == before


def test_a_topic_is_joined_in_mid_stream():
    topic = Availability()
    assert topic.preview(1000) is Result.DONE
    assert (topic.word, topic.first) == (0, 0), "a preview changes nothing"
    assert topic.try_reserve(1000)
    assert (topic.begin, topic.end, topic.frontier, topic.last) == (1000, 1000, 1000, 1001)
    assert topic.try_reserve_next() == 1001
    assert topic.try_make_available(1001)
    assert (topic.begin, topic.end, topic.frontier) == (1001, 1002, 1000)
    assert topic.try_make_available(1000)
    assert topic.word == 1002 << 16 | 0b11, "the bits below the first id stay empty"
    assert [i for i in range(2000) if topic.is_available(i)] == [1000, 1001]
    assert [i for i in range(2000) if topic.was_published(i)] == [1000, 1001]
    assert topic.reserve(999) is topic.make_available(999) is Result.OLD, "nobody waits for it"
    assert [topic.try_reserve_next() for _ in range(17)] == [*range(1002, 1018), None]
    assert topic.reserve(2000) is Result.FULL, "a topic is joined once"


def test_an_id_inside_the_window_of_a_fresh_word_leaves_room_for_lower_ones():
    for early in range(1, 16):
        topic = Availability()
        assert topic.try_reserve(early)
        assert topic.try_make_available(early)
        assert (topic.first, topic.frontier) == (0, 0)
        assert all(topic.try_reserve(i) for i in range(early))
    small = Availability(window=4)
    assert small.try_reserve(4), "4 is beyond the window 0 … 3"
    assert small.first == 4


def test_the_first_id_can_be_said_beforehand():
    topic = Availability(first=990)
    assert (topic.last, topic.begin, topic.end, topic.first) == (990, 990, 990, 990)
    assert topic.try_reserve(1000)
    assert topic.try_make_available(1000)
    assert (topic.begin, topic.end, topic.frontier) == (1000, 1001, 990)
    assert topic.try_reserve(990)
    assert topic.reserve(989) is Result.OLD
    assert topic.reserve(1006) is Result.FULL, "990 would leave"
    assert Availability(first=990).try_reserve_next() == 990
    assert Availability(first=ID_MAX).try_reserve_next() == ID_MAX
    beyond = Availability()
    assert beyond.reserve(ID_MAX + 1) is beyond.preview(ID_MAX + 1) is Result.EXHAUSTED
    assert beyond.try_reserve_next() == 0, "what was refused begins no topic"


def test_two_objects_share_a_word_and_its_first_id():
    cell, origin = AtomicWord(), AtomicWord()
    one, two = (Availability(cell=cell, origin=origin) for _ in range(2))
    assert one.try_reserve(1000)
    assert two.first == 1000
    assert two.try_reserve_next() == 1001
    assert two.reserve(999) is Result.OLD


def test_an_origin_that_is_given_says_where_the_topic_begins():
    cell, origin = AtomicWord(), AtomicWord(1001)
    topic = Availability(cell=cell, origin=origin)  # nothing was reserved yet
    assert (topic.first, topic.last, topic.frontier) == (1000, 1000, 1000)
    assert Availability(cell=cell, origin=origin).try_reserve_next() == 1000
    assert topic.reserve(999) is Result.OLD
    shared = Availability(cell=AtomicWord(), origin=AtomicWord(), first=1000)
    assert (shared.first, shared.last) == (0, 0), "first is not used beside an origin"
    assert (shared.try_reserve(2000), shared.first, shared.frontier) == (True, 2000, 2000)


def test_ids_end_at_48_bits():
    topic = Availability(word=ID_MAX << BITS | 0xFFFF)
    assert topic.try_reserve_next() == ID_MAX == 2**48 - 2
    assert topic.try_make_available(ID_MAX)
    full = topic.word
    assert full == 2**64 - 1
    with pytest.raises(OverflowError, match="does not fit into 48 bits"):
        topic.try_reserve_next()
    with pytest.raises(OverflowError, match="Nothing was reserved"):
        topic.try_reserve(2**60)
    assert topic.word == full
    assert (topic.begin, topic.end) == (2**48 - 17, 2**48 - 1)


def test_publishing_needs_a_reservation_and_happens_once():
    topic = Availability()
    assert topic.make_available(0) is Result.UNRESERVED
    assert topic.try_reserve_next() == 0
    assert topic.try_make_available(0)
    assert not topic.try_make_available(0)
    assert topic.make_available(0) is Result.DUPLICATE
    assert topic.reserve(0) is Result.DUPLICATE


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"window": 0}, "window is 0"),
        ({"window": 17}, "window is 17"),
        ({"word": -1}, "must fit into 64 bits"),
        ({"word": 2**64}, "must fit into 64 bits"),
        ({"word": 1 << 16 | 0b10}, "its 1 last ids"),
        ({"word": 1001 << 16 | 0b10, "first": 1000}, "its 1 last ids"),
        ({"word": 9 << 16, "first": 10}, "all of them below first, 10"),
        ({"first": -1}, "first is -1"),
        ({"first": 2**48 - 1}, "first is"),
        ({"word": 9 << 16 | 0b10000, "window": 4}, "its 4 last ids"),
    ],
)
def test_words_that_mean_nothing_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Availability(**arguments)
    with pytest.raises(ValueError, match="ids are 0 or more"):
        Availability().try_reserve(-1)
