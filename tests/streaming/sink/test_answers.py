"""Answers to commands, picked out of what a batch writes."""

import pytest

from streaming.arrow import output
from streaming.arrow.ipc import to_ipc
from streaming.arrow.totals import ANSWERS_MAX
from streaming.sink.answers import answers_in, noting

PLACE = {"topic": "p.commands", "partition": 0, "offset": 7}


def rows(*happened, topic="p.events"):
    return [{"topic": topic, "rows": to_ipc(output.events([each]))} for each in happened]


def answer(number, **more):
    return output.answer("p", {**PLACE, "offset": number}, "id", 0, {"op": "skip", **more})


def test_answers_are_picked_out_and_rows_pass():
    gap = (b"K", {"event": "gap", "why": '{"event": "command-done"}'})
    given = [*rows(gap, answer(1), answer(2, reason="bad-label")), *rows(answer(3), topic="p.out")]
    found = []
    assert list(noting(iter(given), "p.events", found)) == given
    assert [(each["event"], each["offset"]) for each in found] == [
        ("command-done", 1), ("command-refused", 2),
    ]  # fmt: skip


def test_of_many_the_first_are_reported():
    many = [answer(number) for number in range(ANSWERS_MAX + 5)]
    found = []
    for _ in noting(rows(*many[:10]) + rows(*many[10:]), "p.events", found):
        pass
    assert [each["offset"] for each in found] == list(range(ANSWERS_MAX))


@pytest.mark.parametrize("count", [0, 3])
def test_a_table_of_events(count):
    assert len(answers_in(output.events([answer(number) for number in range(count)]))) == count
