"""A record on the transit topic that is not the service's stops its pipeline, in words."""

from dataclasses import replace

import pyarrow as pa
import pytest

from streaming.arrow.schemas import RECORD
from streaming.disciplines.exchange import spread_rows
from streaming.disciplines.groups.network.route import first_ingress, route
from streaming.disciplines.groups.plan import NetworkPlan
from streaming.disciplines.links import Links
from streaming.errors import InputDamaged
from tests.streaming.exchange_harness import exchange_plan

CHUNK = Links().seal(0, 1, b"")


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, CHUNK), (b"", CHUNK), (b"x", CHUNK), (b"5", CHUNK), (b"1", None), (b"1", CHUNK[:-1])],
)
def test_it_has_its_place_in_the_message(key, value):
    plan = exchange_plan(NetworkPlan, groups={"G": ("A", "B")}, nodes=3)
    plan = replace(plan, ingress=first_ingress(plan))
    transit = len(plan.reads) - 1
    rows = [
        {
            "topic": transit,
            "partition": 0,
            "offset": 7,
            "timestamp": 0,
            "key": b"1",
            "value": CHUNK,
        },
        {"topic": transit, "partition": 2, "offset": 9, "timestamp": 0, "key": key, "value": value},
    ]
    assert spread_rows(pa.Table.from_pylist(rows[:1], RECORD), plan, route(plan)).num_rows == 1
    with pytest.raises(InputDamaged, match=f"{plan.transit}/2@9 is not a record of this service"):
        spread_rows(pa.Table.from_pylist(rows, RECORD), plan, route(plan))
