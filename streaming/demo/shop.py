"""The multicast demo: the parts of a shop tell each other what happened; causes come first.

An order makes a payment, and some payments make a refund, which is sent by somebody who heard of
the payment by telephone (a side channel, nothing that the service could know of). Wherever both
arrive, the payment has to be first.
"""

from __future__ import annotations

import collections
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streaming.arrow.totals import Totals
from streaming.demo.stage import Stage, announce, cause

REFUND_EVERY = 5
TO = {
    "order": ("orders", "payments,inventory,ledger"),
    "payment": ("payments", "orders,ledger,mail"),
    "refund": ("support", "payments,ledger,mail,inventory"),
}
"""Who sends what to whom. Mail and the ledger get both payments and refunds."""


class Demo(Stage):
    """One run of the demo; ``count`` orders at ``per_second``; ``order`` as in the file."""

    watched = "shop"
    pipelines = """\
[pipelines.shop]
discipline = "multicast"
input = ["{topic}.in"]
output = "{topic}.out"
rejects = "{topic}.rejects"
events = "{topic}.events"
commands = "{topic}.commands"
"""

    def __init__(
        self, count: int, per_second: float, seed: int, keep: Path | None, order: str = "batch"
    ) -> None:
        super().__init__(count, per_second, seed, keep)
        if order != "batch":
            self.pipelines += f'order = "{order}"\ntransit = "{{topic}}.transit"\n'
        self.published: collections.Counter[str] = collections.Counter()
        self.got: dict[str, collections.Counter[str]] = {}
        self.last: dict[str, collections.deque[str]] = {}
        self.early: list[str] = []
        self.paid: dict[str, set[int]] = collections.defaultdict(set)

    def prepare(self) -> None:
        """Nothing has to be read."""

    def expected(self) -> int:
        """Orders, payments, refunds."""
        return 2 * self.count + -(-self.count // REFUND_EVERY)

    def sent(self) -> int:
        """By all."""
        return self.published.total()

    def jobs(self) -> list[tuple[Callable[..., None], tuple[Any, ...]]]:
        """Customers, and the parts of the shop, which react to what they read."""
        return [(self._order, ()), (self._react, ())]

    def run(self) -> bool:
        """Show it all; True where verify finds nothing and no refund came before its payment."""
        good = super().run()
        refunds = sum(order["refund"] for order in self.got.values())
        if self.early:
            announce(f"refunds before their payment: {len(self.early)}, first {self.early[0]}")
        else:
            announce(f"{refunds:,} refunds were read, each after its payment where both arrived")
        return good and not self.early

    def _order(self) -> None:
        producer = self.producer()
        for number in self.paced(range(self.count), lambda count: count / self.per_second):
            self._tell(producer, "order", number)
        producer.flush(60)

    def _tell(self, producer: Any, kind: str, number: int, read: Any = None) -> None:
        """Send one; the header says what had been ``read``, for the judge alone."""
        sender, to = TO[kind]
        headers = [("to", to.encode()), *([cause(read)] if read else [])]
        value = json.dumps({"kind": kind, "number": number}).encode()
        producer.produce(f"{self.topic}.in", value, sender.encode(), headers=headers)
        producer.poll(0)
        self.published[kind] += 1

    def _react(self) -> None:
        producer = self.producer()
        for message in self.deliveries(f"{self.topic}.out"):
            peer, fields = message.key().decode(), json.loads(message.value())
            kind, number = fields["kind"], fields["number"]
            self._note(peer, kind, number)
            if (peer, kind) == ("payments", "order"):
                self._tell(producer, "payment", number, message)
            elif (peer, kind) == ("orders", "payment") and number % REFUND_EVERY == 0:
                self._tell(producer, "refund", number, message)
        producer.flush(60)

    def _note(self, peer: str, kind: str, number: int) -> None:
        """Count what a peer got, and look for effects before causes."""
        self.got.setdefault(peer, collections.Counter())[kind] += 1
        self.last.setdefault(peer, collections.deque(maxlen=5)).append(f"{kind} {number}")
        if kind == "payment":
            self.paid[peer].add(number)
        elif kind == "refund" and peer in ("ledger", "mail") and number not in self.paid[peer]:
            self.early.append(f"refund {number} at {peer}")

    def picture(self, totals: Totals, batch: dict[str, Any]) -> Any:
        """What each part of the shop got, and the totals."""
        from rich.console import Group  # noqa: PLC0415  (a quick --help)
        from rich.table import Table  # noqa: PLC0415

        flow = Table(title="the shop", min_width=34)
        flow.add_column("")
        flow.add_column("messages", justify="right")
        for kind in TO:
            flow.add_row(f"{kind}s sent", f"{self.published[kind]:,}")
        flow.add_row("read by the service", f"{totals.seen:,}")
        flow.add_row("deliveries on their way", f"{totals.held:,}", style="yellow")
        flow.add_row("delivered", f"{totals.delivered:,}", style="green")
        flow.add_row("refunds before their payment", f"{len(self.early):,}", style="red")
        flow.add_row("last batch", f"{batch.get('batch_ms', 0):,} ms")
        peers = Table(title="what each of them read last")
        for name in ("peer", "deliveries", "…"):
            peers.add_column(name, min_width=9)
        for peer in sorted(dict(self.got)):
            count = f"{self.got[peer].total():,}"
            peers.add_row(peer, count, ", ".join(list(self.last.get(peer, ()))))
        return Group(flow, peers)
