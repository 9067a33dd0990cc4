"""The channel demo: airports publish in disorder, the service orders, the topics are judged."""

from __future__ import annotations

import collections
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streaming.arrow.totals import Totals
from streaming.config import Config
from streaming.demo import flights
from streaming.demo.page import lanes_of
from streaming.demo.stage import Stage, announce

SHOWN = 6


class Demo(Stage):
    """One run of the demo; ``count`` flights (0: the whole year) at ``per_second``."""

    watched = "flights"
    pipelines = """\
[pipelines.flights]
discipline = "channel"
input = ["{topic}.in"]
output = "{topic}.out"
rejects = "{topic}.rejects"
events = "{topic}.events"
"""

    def __init__(self, count: int, per_second: float, seed: int, keep: Path | None) -> None:
        super().__init__(count, per_second, seed, keep)
        self.by_airport = dict.fromkeys(flights.AIRPORTS, 0)
        self.plan: dict[str, list[flights.FlightMessage]] = {}
        self.arrived: dict[str, collections.deque[str]] = {}
        self.delivered: dict[str, collections.deque[str]] = {}

    def prepare(self) -> None:
        """Flights by airport, each with its own disorder; the busiest aircraft are shown."""
        announce("reading the flights of 2013 …")
        frame = flights.load(self.count)
        self.plan = flights.messages(frame, self.per_second, self.seed)
        busiest = frame["tailnum"].value_counts().index[:SHOWN]
        self.arrived = {name: collections.deque(maxlen=9) for name in busiest}
        self.delivered = {name: collections.deque(maxlen=9) for name in busiest}

    def expected(self) -> int:
        """All flights."""
        return sum(len(messages) for messages in self.plan.values())

    def sent(self) -> int:
        """By all airports."""
        return sum(self.by_airport.values())

    def jobs(self) -> list[tuple[Callable[..., None], tuple[Any, ...]]]:
        """A producer for each airport, and a reader of the ordered topic."""
        return [*((self._publish, item) for item in self.plan.items()), (self._consume, ())]

    def _publish(self, airport: str, plan: list[flights.FlightMessage]) -> None:
        """One airport's producer."""
        producer = self.producer()
        for message in self.paced(plan, lambda planned: planned.at):
            headers = [("label", message.label)] if message.label else []
            producer.produce(f"{self.topic}.in", message.value, message.key, headers=headers)
            producer.poll(0)
            self.by_airport[airport] += 1
            name = message.key.decode() if message.key else ""
            if name in self.arrived:
                self.arrived[name].append(message.label.decode())
        producer.flush(60)

    def _consume(self) -> None:
        """A reader of the ordered topic; the producers wait for its first message."""
        for message in self.deliveries(f"{self.topic}.out"):
            name = (message.key() or b"").decode()
            if name in self.delivered:
                self.delivered[name].append(dict(message.headers() or [])["label"].decode())

    def drawn(self, config: Config) -> list[tuple[str, str]]:
        """Lanes of the busiest aircraft, as far as their flights came out of order."""
        return lanes_of(config, self.watched, [name.encode() for name in self.arrived])

    def picture(self, totals: Totals, batch: dict[str, Any]) -> Any:
        """Two tables: the flow, and labels as they arrived and were delivered."""
        from rich.columns import Columns  # noqa: PLC0415
        from rich.console import Group  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        flow = Table(title="flights", min_width=34)
        flow.add_column("")
        flow.add_column("messages", justify="right")
        for airport, count in self.by_airport.items():
            flow.add_row(f"{airport} sent", f"{count:,}")
        flow.add_row("read by the service", f"{totals.seen:,}")
        flow.add_row("held for a gap", f"{totals.held:,}", style="yellow")
        flow.add_row("delivered in order", f"{totals.delivered:,}", style="green")
        flow.add_row("rejected", f"{sum(totals.rejected.values()):,}", style="red")
        flow.add_row("aircraft waiting", f"{totals.blocked:,}")
        flow.add_row("last batch", f"{batch.get('batch_ms', 0):,} ms")
        planes = Table(title="labels of the busiest aircraft, as they …")
        for name in ("aircraft", "… arrived", "… were delivered"):
            planes.add_column(name, min_width=9)
        for name in self.arrived:
            planes.add_row(name, " ".join(self.arrived[name]), " ".join(self.delivered[name]))
        done = totals.seen / max(self.expected(), 1)
        return Group(Columns([flow, planes]), Text(f"{done:.0%} of {self.expected():,} flights"))
