"""The demo of groups: airlines that meet at several airports see one order of what they hear."""

from __future__ import annotations

import collections
import json
import random
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from sequencer.groups.network.overview import overview
from streaming.arrow.totals import Totals
from streaming.config import Config
from streaming.demo import airports, flights
from streaming.demo.page import lanes_of
from streaming.demo.stage import START_SECONDS_MAX, Stage, announce, cause
from streaming.graph import svg
from streaming.graph.overlaps import draw_overlaps

SHOWN = 9
REACTIONS_MAX = 300
REACT_UNTIL = 0.8
"""Airlines answer until so much is sent, so that the end is one."""


def groups_drawn(groups: Mapping[str, Collection[str]], pipeline: Any) -> str:
    """Draw groups with their overlaps; ordered by a network, their paths over its nodes."""
    if pipeline.sequencing == "batch":
        return draw_overlaps(groups, None, "airports and their overlaps")
    view = overview(groups, pipeline.sequencing_nodes)
    return svg.drawn(view, "airports: groups, atoms and sequencing nodes")


class Demo(Stage):
    """One run of the demo; ``count`` flights, ``per_second`` messages; ``order``: `sequencing`."""

    watched = "airports"
    pipelines = ""

    def __init__(
        self, count: int, per_second: float, seed: int, keep: Path | None, order: str = "batch"
    ) -> None:
        super().__init__(count, per_second, seed, keep)
        self.order = order
        self.scene = airports.Scene({}, {}, [])
        self.by_desk = dict.fromkeys(flights.AIRPORTS, 0)
        self.answers = 0
        self.done: list[str] = []
        self.pair: tuple[str, str] = ("", "")
        self.got: dict[str, collections.deque[str]] = {}

    def drawn(self, config: Config) -> list[tuple[str, str]]:
        """The groups with their overlaps, and lanes of the desks."""
        groups = groups_drawn(self.scene.groups, config.pipelines["airports"])
        lanes = lanes_of(config, "desks", [name.encode() for name in self.by_desk])
        return [("airports as groups, and the airlines that meet at two", groups), *lanes]

    def prepare(self) -> None:
        """The scene, and the two airlines with most airports in common, which are shown."""
        announce("reading the flights of 2013 …")
        self.scene = airports.scene(flights.load(self.count), self.per_second, self.seed)
        members = [set(group) for group in self.scene.groups.values()]
        everyone = sorted(set().union(*members))
        pairs = [(a, b) for a in everyone for b in everyone if a < b]
        self.pair = max(pairs, key=lambda pair: sum(set(pair) <= joined for joined in members))
        self.got = {name: collections.deque(maxlen=SHOWN) for name in self.pair}
        groups = ", ".join(
            f"{name} = {json.dumps(members_of)}" for name, members_of in self.scene.groups.items()
        )
        self.pipelines = f"""\
[pipelines.desks]                        # each desk's messages, put right by their labels
discipline = "channel"
input = ["{{topic}}.desks"]
output = "{{topic}}.straight"
rejects = "{{topic}}.desks.rejects"
events = "{{topic}}.desks.events"

[pipelines.airports]                     # one order for all airlines
discipline = "group"
input = ["{{topic}}.straight", "{{topic}}.airlines"]
output = "{{topic}}.out"
rejects = "{{topic}}.rejects"
events = "{{topic}}.events"
commands = "{{topic}}.commands"
groups = {{ {groups} }}
"""
        if self.order != "batch":
            self.pipelines += f'sequencing = "{self.order}"\ntransit = "{{topic}}.transit"\n'

    def expected(self) -> int:
        """All messages of the desks, and what airlines answered."""
        return self.scene.count + self.answers

    def sent(self) -> int:
        """By desks and airlines."""
        return sum(self.by_desk.values()) + self.answers

    def jobs(self) -> list[tuple[Callable[..., None], tuple[Any, ...]]]:
        """The three desks, the hand that changes groups, and the airlines."""
        desks = [(self._publish, item) for item in self.scene.notices.items()]
        return [*desks, (self._command, ()), (self._airlines, ())]

    def _publish(self, desk: str, notices: list[airports.AirportNotice]) -> None:
        """One desk: its messages carry labels, since they are sent a little out of order."""
        producer = self.producer()
        for notice in self.paced(notices, lambda planned: planned.at):
            headers = [("label", b"%d" % notice.label), ("group", notice.group.encode())]
            producer.produce(f"{self.topic}.desks", notice.value, desk.encode(), headers=headers)
            producer.poll(0)
            self.by_desk[desk] += 1
        producer.flush(60)

    def _command(self) -> None:
        """Airlines leave and come, a group comes and goes."""
        producer = self.producer()
        self.began.wait(START_SECONDS_MAX)
        start = time.monotonic()
        for at, command in self.scene.commands:
            if self.stopping.wait(max(0.0, start + at - time.monotonic())):
                return
            producer.produce(f"{self.topic}.commands", json.dumps(command).encode())
            producer.flush(60)
            self.done.append(command["id"])

    def _airlines(self) -> None:
        """All airlines' readers in one; now and then one answers to the group of the message."""
        rng = random.Random(self.seed)  # noqa: S311
        producer = self.producer()
        for message in self.deliveries(f"{self.topic}.out"):
            airline = message.key().decode()
            headers = dict(message.headers())
            group = headers["group"].decode()
            if airline in self.got and set(self.pair) <= set(self.scene.groups.get(group, ())):
                said = json.loads(message.value())
                self.got[airline].append(f"{group}:{said.get('flight', 'ack')}")
            early = self.sent() < REACT_UNTIL * self.scene.count
            if early and self.answers < REACTIONS_MAX and rng.random() < 0.01:
                value = json.dumps({"what": "ack", "flight": "ack", "by": airline}).encode()
                header = [("group", headers["group"]), cause(message)]
                producer.produce(f"{self.topic}.airlines", value, message.key(), headers=header)
                producer.poll(0)
                self.answers += 1
        producer.flush(60)

    def picture(self, totals: Totals, batch: dict[str, Any]) -> Any:
        """Two tables: the flow, and what two airlines got last from the airports they share."""
        from rich.console import Group  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        flow = Table(title=f"{len(self.scene.groups)} airports as groups, airlines subscribe")
        flow.add_column("")
        flow.add_column("messages", justify="right")
        for desk, count in self.by_desk.items():
            flow.add_row(f"desk {desk} sent", f"{count:,}")
        flow.add_row("airlines answered", f"{self.answers:,}")
        flow.add_row("put in order", f"{totals.seen:,}")
        flow.add_row("delivered to airlines", f"{totals.delivered:,}", style="green")
        flow.add_row("last batch", f"{batch.get('batch_ms', 0):,} ms")
        for done in self.done:
            flow.add_row(f"command: {done}", "")
        same = Table(title="the last messages of airports that both airlines are at")
        for name in self.pair:
            same.add_column(name, min_width=10)
        for row in zip(*(list(self.got[name]) for name in self.pair), strict=False):
            same.add_row(*row)
        done_ = totals.seen / max(self.expected(), 1)
        return Group(flow, same, Text(f"{done_:.0%} of {self.expected():,} messages"))
