"""The smallest form of `make chaos`, and its table."""

import json

import pytest

from tests.chaos import table
from tests.chaos.catalogue import FAULTS, GROUPS, kafka_for
from tests.chaos.place import Place
from tests.chaos.run import run
from tests.chaos.traffic import NAMES

FOREVER = float("inf")


def some(names):
    return [FAULTS[name] for name in names]


@pytest.mark.timeout(1200)
def test_a_worker_is_killed_and_a_connection_is_cut(broker, tmp_path):
    place = Place(broker, tmp_path, ["channel", "group", "batch"], seed=1)
    names = ["worker killed", "connections of all cut 10 times"]
    rows = run(place, some(names), FOREVER, print)
    assert [(row["fault"], row["outcome"]) for row in rows] == [
        (name, "goes on") for name in names for _ in range(3)
    ]


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("group", GROUPS)
def test_every_fault(tmp_path, group):
    with kafka_for(GROUPS[group]) as kafka:
        place = Place(kafka, tmp_path, NAMES, seed=2)
        rows = run(place, GROUPS[group], FOREVER, print)
    assert len(rows) == len(GROUPS[group]) * len(NAMES)


def test_the_page_has_what_was_measured():
    rows = json.loads(table.MEASURED.read_text())
    assert table.page(table.PAGE.read_text(), rows) == table.PAGE.read_text()
    assert {row["fault"] for row in rows} <= set(FAULTS)
