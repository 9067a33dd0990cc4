"""The flights of 2013 as messages to groups: airports are groups, airlines their subscribers.

The desks of the three New York airports tell all airlines that fly there of each departure, and
those at the destination, if it is one of the ten largest, of the arrival to come. Airlines leave
airports and come back meanwhile.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

import pandas as pd

from streaming.demo.flights import AIRPORTS

DESTINATIONS = 10
DISORDER_SECONDS = 0.4


@dataclass(frozen=True, slots=True)
class AirportNotice:
    """A message of an airport's desk: when it is sent (s from the start), to whom, its label."""

    at: float
    group: str
    value: bytes
    label: int


@dataclass(frozen=True, slots=True)
class Scene:
    """``groups`` at first; the desks' messages in the order of sending; commands with times."""

    groups: dict[str, list[str]]
    notices: dict[str, list[AirportNotice]]
    commands: list[tuple[float, dict[str, Any]]]

    @property
    def count(self) -> int:
        """How many messages the desks send."""
        return sum(map(len, self.notices.values()))


def scene(flights: pd.DataFrame, per_second: float, seed: int) -> Scene:
    """What happens, for flights as `flights.load` gives them; one seed gives one scene."""
    largest = flights["dest"].value_counts().index[:DESTINATIONS]
    groups = {name: _airlines(flights[flights["origin"] == name]) for name in AIRPORTS}
    groups |= {str(name): _airlines(flights[flights["dest"] == name]) for name in largest}
    groups = {name: airlines for name, airlines in groups.items() if airlines}
    notices = _notices(flights, set(groups), per_second, random.Random(seed))  # noqa: S311
    seconds = max((notice[-1].at for notice in notices.values() if notice), default=0.0)
    return Scene(groups, notices, _commands(groups, seconds))


def _airlines(flights: pd.DataFrame) -> list[str]:
    return sorted(map(str, flights["carrier"].unique()))


def _notices(
    flights: pd.DataFrame, groups: set[str], per_second: float, rng: random.Random
) -> dict[str, list[AirportNotice]]:
    """By desk; sent a little out of order, as the labels tell."""
    out: dict[str, list[AirportNotice]] = {name: [] for name in AIRPORTS}
    rows: Any = flights.itertuples(index=False)
    index = 0
    for flight in rows:
        desk = str(flight.origin)
        fields = {"flight": f"{flight.carrier}{flight.flight}", "to": str(flight.dest)}
        for group, what in ((desk, "departs"), (str(flight.dest), "comes")):
            if group in groups:
                value = json.dumps({"what": what, "from": desk, **fields}).encode()
                at = index / per_second
                out[desk].append(AirportNotice(at, group, value, len(out[desk])))
                index += 1
    for desk, desk_notices in out.items():
        moved = [(notice.at + rng.uniform(0, DISORDER_SECONDS), notice) for notice in desk_notices]
        moved.sort(key=lambda pair: pair[0])
        out[desk] = [
            AirportNotice(at, notice.group, notice.value, notice.label) for at, notice in moved
        ]
    return out


def _commands(groups: dict[str, list[str]], seconds: float) -> list[tuple[float, dict[str, Any]]]:
    """An airline leaves an airport and comes back; some airlines get a group of their own."""
    others = groups["LGA"][:-1] or groups["LGA"]
    members = groups["JFK"][:3]
    return [
        (0.2 * seconds, {"op": "set", "group": "LGA", "members": others, "id": "one leaves LGA"}),
        (
            0.4 * seconds,
            {"op": "add", "group": "lounge", "members": members, "id": "a lounge opens"},
        ),
        (
            0.6 * seconds,
            {"op": "set", "group": "LGA", "members": groups["LGA"], "id": "it is back"},
        ),
        (0.8 * seconds, {"op": "remove", "group": "lounge", "id": "the lounge closes"}),
    ]
