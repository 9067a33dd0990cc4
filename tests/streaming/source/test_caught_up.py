"""Until when all that had come is read: of logs whose every record has a time, and of a real one."""

import json

from hypothesis import given
from hypothesis import strategies as st

from streaming.source.caught_up import CaughtUp
from streaming.source.pacing import Pace
from streaming.source.positions import logs_in
from streaming.spark.spark_files import caught_up_ms
from tests.streaming.source.readings import as_logged, send, values

STEPS = st.lists(
    st.tuples(
        st.tuples(st.integers(0, 3), st.integers(0, 3)),  # records that come to two partitions
        st.tuples(st.integers(0, 4), st.integers(0, 4)),  # how many of them a batch reads at most
        st.booleans(),  # whether the first one's log is cut back to what is read
    ),
    max_size=12,
)


@given(STEPS)
def test_all_is_read_that_came_until_then(steps):
    logs, read = {"0": [], "1": []}, {"0": 0, "1": 0}
    caught_up, before = CaughtUp(), 0
    for second, (come, most, is_cut) in enumerate([*steps, *[((0, 0), (5, 5), False)] * 20], 1):
        for at, number, limit in zip(logs, come, most, strict=True):
            logs[at] += [second * 1000] * number
            read[at] = min(read[at] + limit, len(logs[at]))
        if is_cut:
            del logs["0"][read["0"] :]
        ends = {at: len(log) for at, log in logs.items()}
        batch = {"t": dict(read)}
        noted = caught_up.noted(batch, {"t": ends, "#t": {"id": "i"}}, second + 0.5)
        unread = [ms for at, log in logs.items() for ms in log[read[at] :]]
        assert (noted is batch) == (not unread)
        now = noted["#"]["caught_up_ms"] if unread else second * 1000 + 500
        assert before <= now < min(unread, default=now + 1)
        before = now
    assert noted is batch


def test_it_follows_a_query_that_never_has_read_all():
    caught_up, found = CaughtUp(), []
    for second in range(1, 13):  # four records come each second, three are read
        noted = caught_up.noted({"t": {"0": 3 * second}}, {"t": {"0": 4 * second}}, second)
        found.append(noted["#"]["caught_up_ms"])
    assert found == [0, 1000, 2000, 3000, 3000, 4000, 4000, 6000, 6000, 6000, 8000, 8000]


def test_a_reader_notes_it(broker, topic, reading):
    pace = Pace()
    reader = reading(records_max=2, pace=pace)
    start = as_logged(reader.first())
    sent = send(broker, topic, b"a", 5)
    found, read = [], []
    for batch in range(4):
        if batch == 1:
            first_ms = round(pace.looked * 1000)
            sent += send(broker, topic, b"b", 3)
        end = as_logged(reader.latest(start))
        found.append(caught_up_ms(b"v1\n{}\n" + json.dumps(end).encode()))
        assert logs_in(end) == logs_in(end | {"#": {}})
        read += values(reader, start, end)
        start = end
    assert found == [0, 0, first_ms, None]
    assert reader.latest(start) is start
    assert read == sent
