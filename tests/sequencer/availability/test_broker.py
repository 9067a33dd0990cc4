import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.availability import BrokerClosed, DraftSettled, LocalBroker, Mode
from sequencer.availability import broker as local_broker
from sequencer.availability.concurrent import Availability
from sequencer.availability.word import BITS, ID_MAX
from tests.sequencer.availability.broker_reads import NOW, SOON, WAIT, filled, payloads


def test_an_ordered_reader_waits_for_the_gap_and_a_newest_reader_does_not():
    broker = LocalBroker()
    ordered, newest = broker.subscribe("t"), broker.subscribe("t", "newest")
    four, five = filled(broker, "t", "4"), filled(broker, "t", "5")
    five.publish()
    with pytest.raises(TimeoutError, match="no message from id 0 on"):
        ordered.read(SOON)
    assert newest.read(NOW).payload == "5"
    four.publish()
    assert [m.payload for m in payloads(ordered)] == ["4", "5"]
    assert payloads(newest) == [], "a newest reader never goes back"


def test_a_nested_message_has_an_id_in_each_topic():
    broker = LocalBroker()
    readers = {name: broker.subscribe(name) for name in ("a/b/c", "a/b", "a")}
    for topic in ("a", "a/b", "a/x", "a/b/c"):
        broker.publish(topic, topic, NOW)
    got = {name: payloads(reader) for name, reader in readers.items()}
    assert {name: [(m.id, m.payload) for m in read] for name, read in got.items()} == {
        "a/b/c": [(0, "a/b/c")],
        "a/b": [(0, "a/b"), (1, "a/b/c")],
        "a": [(0, "a"), (1, "a/b"), (2, "a/x"), (3, "a/b/c")],
    }
    assert dict(got["a"][3].ids) == {"a/b/c": 0, "a/b": 1, "a": 3}
    assert broker.topics() == ["a", "a/b", "a/b/c", "a/x"]


def test_a_reservation_takes_all_its_ids_or_none():
    broker = LocalBroker(capacity=2)
    drafts = [filled(broker, "a/b", n) for n in range(2)]
    with pytest.raises(TimeoutError, match=r"topic 'a' waits for draft .*'a/b': 0"):
        broker.reserve("a/c", SOON)
    drafts[0].publish()
    assert dict(broker.publish("a/c", 9, NOW)) == {"a/c": 0, "a": 2}


@pytest.mark.parametrize("capacity", [1, 4, 15, 16, 17, 32])
def test_a_slow_reader_is_told_what_it_missed(capacity):
    broker = LocalBroker(capacity=capacity)
    ordered, newest = broker.subscribe("t"), broker.subscribe("t", Mode.NEWEST)
    for n in range(50):
        broker.publish("t", n, NOW)
    first, *rest = payloads(ordered)
    assert first.missed == range(50 - capacity)
    assert [m.payload for m in (first, *rest)] == list(range(50 - capacity, 50))
    assert all(m.missed == range(m.id, m.id) for m in rest)
    (last,) = payloads(newest)
    assert (last.payload, last.missed) == (49, range(49))


def test_a_ring_larger_than_the_bitmap_still_serves_what_left_the_bitmap():
    broker = LocalBroker(capacity=100)
    reader = broker.subscribe("t")
    for n in range(100):
        broker.publish("t", n, NOW)
    assert [m.payload for m in payloads(reader)] == list(range(100))


def test_an_abandoned_draft_is_told_as_missed():
    broker = LocalBroker()
    ordered = broker.subscribe("t")
    with pytest.raises(ZeroDivisionError), broker.reserve("t", NOW) as draft:
        draft.fill(1 / 0)
    with broker.reserve("t", NOW):
        pass  # never filled
    broker.publish("t", "there", NOW)
    (message,) = payloads(ordered)
    assert (message.payload, message.missed) == ("there", range(2))
    newest = broker.subscribe("t", "newest", start=0)
    broker.reserve("t", NOW).abandon()
    assert newest.read(NOW).payload == "there", "an abandoned id is no message"


def test_a_silent_publisher_can_be_given_up_and_learns_of_it():
    broker = LocalBroker(capacity=1)
    reader = broker.subscribe("a")
    silent = filled(broker, "a/b", "too late")
    with pytest.raises(TimeoutError):
        broker.reserve("a", SOON)
    broker.oldest_open("a").abandon()
    broker.publish("a", "next", NOW)
    with pytest.raises(DraftSettled, match="was abandoned before"):
        silent.publish()
    with pytest.raises(DraftSettled), silent:
        pass
    with pytest.raises(ZeroDivisionError), silent:
        raise ZeroDivisionError
    assert [(m.payload, m.missed) for m in payloads(reader)] == [("next", range(1))]
    assert broker.oldest_open("a") is None
    assert broker.oldest_open("a/b") is None


def test_a_draft_is_published_once_and_not_empty():
    broker = LocalBroker()
    draft = broker.reserve("t", NOW)
    with pytest.raises(ValueError, match="is empty, so not published"):
        draft.publish()
    draft.fill(1)
    draft.fill(2)
    draft.publish()
    for again in (draft.publish, draft.abandon, lambda: draft.fill(3)):
        with pytest.raises(DraftSettled):
            again()
    assert broker.subscribe("t", start=0).read(NOW).payload == 2


def test_start_may_lie_in_the_past_or_in_the_future():
    broker = LocalBroker(capacity=4)
    for n in range(6):
        broker.publish("t", n, NOW)
    past, future = broker.subscribe("t", start=1), broker.subscribe("t", start=7)
    assert past.read(NOW).missed == range(1, 2)
    broker.publish("t", 6, NOW)
    assert payloads(future) == []
    broker.publish("t", 7, NOW)
    assert future.read(NOW).payload == 7
    assert future.position == 8


def test_after_close_what_is_there_is_read_to_its_end():
    broker = LocalBroker()
    reader = broker.subscribe("t")
    broker.publish("t", 0, NOW)
    draft = filled(broker, "t", 1)
    broker.close()
    with pytest.raises(BrokerClosed, match="nothing was reserved"):
        broker.reserve("t", WAIT)
    with pytest.raises(BrokerClosed):
        broker.reserve("another", WAIT)
    assert reader.read(NOW).payload == 0
    with pytest.raises(TimeoutError):
        reader.read(NOW)  # a draft is still open
    draft.publish()
    assert reader.read(WAIT).payload == 1
    with pytest.raises(BrokerClosed, match="has ended before id 2"):
        reader.read(WAIT)


@pytest.mark.parametrize("topic", ["", "/", "a/", "/a", "a//b", "a" * 128, "/".join("a" * 17)])
def test_names_that_are_no_topics_are_refused(topic):
    with pytest.raises(ValueError, match="is not a topic"):
        LocalBroker().subscribe(topic)


def test_limits_hold_and_one_past_them_is_refused(monkeypatch):
    monkeypatch.setattr(local_broker, "TOPICS_MAX", 3)
    broker = LocalBroker()
    broker.subscribe("a/b/" + "c" * 123)  # three topics, the longest name of 127
    for topic in ("d", "a/e"):
        with pytest.raises(ValueError, match="3 at most"):
            broker.subscribe(topic)
    assert len(broker.topics()) == 3
    for capacity in (0, 2**20 + 1):
        with pytest.raises(ValueError, match="capacity is"):
            LocalBroker(capacity=capacity)
    with pytest.raises(ValueError, match="start is -1"):
        broker.subscribe("a", start=-1)
    with pytest.raises(ValueError, match="oldest"):
        broker.subscribe("a", "oldest")


def test_a_topic_ends_with_its_ids():
    broker = LocalBroker()
    ring = broker._find("t")[1][0]
    ring.availability = Availability(word=ID_MAX << BITS | 0xFFFF)
    assert broker.publish("t", "last", NOW)["t"] == ID_MAX
    with pytest.raises(OverflowError, match="Nothing was reserved"):
        broker.reserve("t", NOW)
    assert broker.subscribe("t", start=ID_MAX).read(NOW).payload == "last"


class NaiveTopic:
    """Every message ever, its fate, and what a reader of the last ``capacity`` would get."""

    def __init__(self, capacity):
        self.capacity, self.window, self.fates = capacity, min(16, capacity), []

    def has_room(self):
        return all(self.fates[: max(0, len(self.fates) + 1 - self.window)])

    def ordered(self, start):
        """(id, missed) from ``start`` on, up to the first open one that is still there."""
        out, told = [], start
        for i in range(max(start, len(self.fates) - self.capacity, 0), len(self.fates)):
            if self.fates[i] is None:
                break
            if self.fates[i] == "published":
                out.append((i, range(told, i)))
                told = i + 1
        return out, told

    def newest(self, start):
        there = [i for i, fate in enumerate(self.fates) if fate == "published"]
        there = [i for i in there if i >= max(start, len(self.fates) - self.capacity)]
        return there[-1] if there else None


@given(
    st.integers(1, 20),
    st.lists(
        st.tuples(
            st.sampled_from(["reserve", "reserve", "publish", "publish", "abandon", "read"]),
            st.sampled_from(["a", "a/b", "a/c"]),
            st.integers(0, 30),
        ),
        max_size=80,
    ),
)
def test_any_script_agrees_with_a_list_of_all_messages(capacity, script):
    broker = LocalBroker(capacity)
    model = {name: NaiveTopic(capacity) for name in ("a", "a/b", "a/c")}
    ordered = {name: broker.subscribe(name) for name in model}
    newest = {name: broker.subscribe(name, "newest") for name in model}
    at, seen = dict.fromkeys(model, 0), dict.fromkeys(model, 0)
    drafts = []

    def compare(name):
        got = [(m.id, m.missed) for m in payloads(ordered[name])]
        want, at[name] = model[name].ordered(at[name])
        assert got == want
        top = model[name].newest(seen[name])
        read = payloads(newest[name])
        assert [m.id for m in read] == ([] if top is None else [top])
        assert all(m.payload == name_of(m) for m in read)
        seen[name] = seen[name] if top is None else top + 1

    def name_of(message):
        return dict(message.ids)

    for action, name, pick in script:
        names = [name, "a"] if name != "a" else ["a"]
        if action == "reserve":
            if not all(model[n].has_room() for n in names):
                with pytest.raises(TimeoutError):
                    broker.reserve(name, NOW)
                continue
            draft = broker.reserve(name, NOW)
            draft.fill(dict(draft.ids))
            assert dict(draft.ids) == {n: len(model[n].fates) for n in names}
            for n in names:
                model[n].fates.append(None)
            drafts.append((draft, dict(draft.ids)))
        elif action == "read":
            compare(name)
        elif drafts:
            draft, ids = drafts.pop(pick % len(drafts))
            (draft.publish if action == "publish" else draft.abandon)()
            for n, i in ids.items():
                model[n].fates[i] = "published" if action == "publish" else "abandoned"
    for name in model:
        compare(name)


@pytest.mark.parametrize("capacity", [2, 3, 16])
def test_all_interleavings_of_three_publishers_and_their_steps(capacity):
    """Each reserves, fills and publishes (a reservation that finds no room is tried later)."""
    topics = ("a/b", "a/c", "a/b")
    orders = set(itertools.permutations([0, 0, 0, 1, 1, 1, 2, 2, 2]))
    assert len(orders) == 1680
    refused = 0
    for order in orders:
        broker = LocalBroker(capacity)
        readers = {name: broker.subscribe(name) for name in ("a", "a/b", "a/c")}
        newest = broker.subscribe("a", "newest")
        drafts, steps, waiting = {}, [0, 0, 0], list(order)
        got = {name: [] for name in readers}
        seen = []
        while waiting:
            who = waiting.pop(0)
            if steps[who] == 0:
                try:
                    drafts[who] = broker.reserve(topics[who], NOW)
                except TimeoutError:
                    refused += 1
                    waiting += [who]
                    continue
            elif steps[who] == 1:
                drafts[who].fill(who)
            else:
                drafts[who].publish()
            steps[who] += 1
            for name, reader in readers.items():
                got[name] += payloads(reader)
            seen += payloads(newest)
        for name, read in got.items():
            here = [w for w in range(3) if name in drafts[w].ids]
            want = sorted(here, key=lambda w: drafts[w].ids[name])
            assert [(m.id, m.payload) for m in read] == list(enumerate(want)), order
            assert not any(m.missed for m in read), order
        one_order = [m.payload for m in got["a"]]
        nested = [m.payload for m in got["a/b"]]
        assert [w for w in one_order if w in nested] == nested, f"two orders of one pair: {order}"
        ids = [m.id for m in seen]
        assert ids == sorted(set(ids)), order
        assert ids[-1] == 2, order
    assert (refused > 0) == (capacity == 2)
