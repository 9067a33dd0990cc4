"""Until when all that had come is read: of logs whose every record has a time, and of a real one."""

import json
import math
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streaming.source import caught_up
from streaming.source.caught_up import SHRUNK_MS, SLOW_MS, CaughtUp
from streaming.source.positions import begin_of, logs_in, offsets_in
from streaming.spark.spark_files import unread
from tests.streaming.source.readings import as_logged, send, values

STEPS = st.lists(
    st.tuples(
        st.tuples(st.integers(0, 3), st.integers(0, 3)),  # records that come to two partitions
        st.tuples(st.integers(0, 4), st.integers(0, 4)),  # how many of them a batch reads at most
        st.booleans(),  # whether the first one's leader shows two records less
    ),
    max_size=12,
)


@pytest.fixture(autouse=True)
def _own_clock(monkeypatch):
    monkeypatch.setattr(caught_up, "SLOW_MS", math.inf)


def at(*offsets):
    """A position in two partitions of a topic."""
    return {"t": {str(partition): offset for partition, offset in enumerate(offsets)}}


def said(end):
    return end["#"]["caught_up_ms"] if "#" in end else None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_all_is_read_that_was_seen_to_come_until_then(steps):
    sizes, seen, read = [0, 0], ([], []), [0, 0]
    mine, before = CaughtUp(), 0
    for second, (come, most, hides) in enumerate([*steps, *[((0, 0), (5, 5), False)] * 20], 1):
        ends = [0, 0]
        for n, times in enumerate(seen):  # when each offset was seen first
            sizes[n] += come[n]
            ends[n] = max(read[n], sizes[n] - 2 * (hides and n == 0))
            times.extend([second * 1000] * (ends[n] - len(times)))
            read[n] = min(read[n] + most[n], ends[n])
        end = mine.noted({}, at(*read), at(*ends), second + 0.5)
        left = [ms for n, times in enumerate(seen) for ms in times[read[n] :]]
        assert (said(end) is None) == (not left)
        until = second * 1000 + 500 if said(end) is None else said(end)
        assert before <= until < min(left, default=until + 1)
        before = until
    assert said(end) is None


def test_it_follows_a_query_that_never_has_read_all():
    mine = CaughtUp()  # four records come each second, three are read
    ends = [mine.noted({}, at(3 * second), at(4 * second), second) for second in range(1, 13)]
    assert [said(end) for end in ends] == [
        0,
        1000,
        2000,
        3000,
        3000,
        4000,
        4000,
        6000,
        6000,
        6000,
        8000,
        8000,
    ]


def test_a_query_is_behind_since_it_last_had_read_all():
    """Also over starts, but for a run with ``--once``: before it, nothing was read."""
    mine, start, found = CaughtUp(), at(0), []
    for second, (read, end) in enumerate([(1, 2), (2, 3), (3, 3), (3, 4), (4, 5)], 1):
        start = mine.noted(start, at(read), at(end), second)
        found.append(start["#"]["behind_ms"] if "#" in start else None)
    assert found == [1000, 1000, None, 4000, 4000]
    assert CaughtUp().noted(start, at(5), at(9), 60)["#"]["behind_ms"] == 4000
    began = time.time()
    mine = CaughtUp(goes_on=False)
    looked = time.time()
    for _ in range(2):
        start = mine.noted(start, at(5), at(9), looked)
        assert began * 1000 - 1 <= start["#"]["behind_ms"] <= looked * 1000 + 1


def test_a_clock_that_was_ahead_counts_for_no_longer():
    start = CaughtUp().noted(at(0), at(1), at(2), 5_000)
    assert CaughtUp().noted(start, at(2), at(3), 7)["#"]["behind_ms"] == 7_000


def test_a_log_that_stays_shorter_is_shorter():
    """It was cut back to what was read: what it had will not come."""
    mine = CaughtUp()
    start = mine.noted({}, at(5), at(9), 1.0)
    assert said(start) == 0
    assert mine.noted(start, start, at(5), 2.0) is start, "a new leader may know less for a moment"
    end = mine.noted(start, start, at(5), 2.0 + SHRUNK_MS / 1000)
    assert (end, offsets_in(end)) == (at(5), offsets_in(start))
    assert mine.noted(end, end, at(5), 40.0) is end


def test_a_partition_that_is_new_counts_while_another_s_end_is_back():
    mine, looks = CaughtUp(), [((5,), (10,)), ((8,), (20,)), ((12, 20), (15, 100))]
    for second, (read, ends) in enumerate(looks, 1):
        assert said(mine.noted({}, at(*read), at(*ends), second)) == max(second - 2, 0) * 1000
    assert said(mine.noted({}, at(20, 50), at(20, 100), 4)) == 1000
    assert said(mine.noted({}, at(20, 100), at(20, 100), 5)) is None


def test_a_batch_without_records_does_not_begin_where_one_before_it_did():
    """Where a loss was accepted, an end says where its batch began."""
    mine, log = CaughtUp(), {"#t": {"id": "i", "epochs": {"0": 1}, "begins": {"0": 3}}}
    start = mine.noted({}, at(5) | log, at(9), 1.0)
    mine.noted(start, start, at(5), 2.0)
    end = mine.noted(start, start, at(5), 40.0)
    assert begin_of(start, end) == offsets_in(end) == at(5)
    assert logs_in(end)["t"].epochs == {"0": 1}


def test_what_comes_between_a_slow_look_and_its_batch_may_be_unread(monkeypatch):
    monkeypatch.setattr(caught_up, "SLOW_MS", SLOW_MS)
    looked = time.time() - SLOW_MS / 1000 - 1
    mine = CaughtUp()
    end = mine.noted({}, at(5), at(5), looked)
    assert said(end) == end["#"]["behind_ms"] == round(looked * 1000)
    assert said(mine.noted(end, end, at(5), looked)) is None, "it is not kept for the next one"
    behind = {**end, "#": {"caught_up_ms": 1, "behind_ms": 1}}
    assert mine.noted(behind, at(6), at(6), looked)["#"]["behind_ms"] == round(looked * 1000)
    assert said(mine.noted({}, at(6), at(6), time.time())) is None


def test_a_reader_notes_it(broker, topic, reading):
    reader = reading(records_max=2)
    start = as_logged(reader.first())
    sent = send(broker, topic, b"a", 5)
    found, read = [], []
    for batch in range(4):
        if batch == 1:
            first_ms = round(reader._looked * 1000)
            sent += send(broker, topic, b"b", 3)
        end = as_logged(reader.latest(start))
        found.append(unread(b"v1\n{}\n" + json.dumps(end).encode()).get("caught_up_ms"))
        assert logs_in(end) == logs_in(end | {"#": {}})
        read += values(reader, start, end)
        start = end
    assert found == [0, 0, first_ms, None]
    assert reader.latest(start) is start
    assert read == sent
