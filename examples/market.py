"""Groups: a publisher, and a subscriber that books what it gets exactly once, in SQLite.

The ledger keeps the place of its last delivery in the same transaction as the booking. Kill this
program at any moment and start it again: nothing is booked twice, nothing is left out.
"""

import sqlite3
import sys

from streaming import GroupPublisher, OrderedConsumer
from streaming.clients import Delivery, GroupDelivery

TRACE = ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
TABLES = """
CREATE TABLE IF NOT EXISTS booked (what TEXT);
CREATE TABLE IF NOT EXISTS place (subscriber BLOB PRIMARY KEY, incarnation INT, sequence INT);
"""
LATER = """
INSERT INTO place VALUES (?, ?, ?) ON CONFLICT (subscriber)
DO UPDATE SET incarnation = excluded.incarnation, sequence = excluded.sequence
WHERE (excluded.incarnation, excluded.sequence) > (incarnation, sequence)
"""


class Ledger:
    """What was booked, and up to where."""

    def __init__(self, path: str) -> None:
        self.database = sqlite3.connect(path)
        self.database.executescript(TABLES)

    def place(self, delivery: Delivery) -> tuple[int, int] | None:
        """The last (incarnation, sequence) of the delivery's subscriber."""
        found = self.database.execute(
            "SELECT incarnation, sequence FROM place WHERE subscriber = ?", (delivery.key,)
        ).fetchone()
        return found and (found[0], found[1])

    def book(self, delivery: GroupDelivery) -> None:
        """One transaction: the place, if it is a later one, and the booking.

        It is not where this reader stood still, and another one has booked this meanwhile.
        """
        what = f"{delivery.group}: {(delivery.value or b'').decode()}"
        place = (delivery.key, delivery.incarnation, delivery.sequence)
        with self.database:
            if self.database.execute(LATER, place).rowcount:
                self.database.execute("INSERT INTO booked VALUES (?)", (what,))
                print(f"ann booked {what} from {delivery.sender.decode()}")


def main(
    address: str = "localhost:9092", pipeline: str = "market", path: str = "ledger.sqlite"
) -> None:
    """The exchange publishes to two groups; ann books, and answers one of them."""
    kafka = {"bootstrap.servers": address}
    with GroupPublisher(kafka, f"{pipeline}.in", "exchange") as exchange:
        exchange.send("stocks", "IBM 101", [TRACE])
        exchange.send("bonds", "T10 4.2", [TRACE])
        exchange.send("stocks", "IBM 102", [TRACE])
    ledger = Ledger(path)
    with OrderedConsumer(
        kafka,
        [f"{pipeline}.out"],
        discipline="group",
        group=f"{pipeline}-ledger",
        keys=["ann"],
        resume=ledger.place,
    ) as consumer:
        ann = GroupPublisher(kafka, f"{pipeline}.in", "ann", reads=consumer)
        for number in range(4):
            delivery = consumer.poll(120)
            assert delivery is not None, "is the service running?"
            ledger.book(delivery)
            if number == 2:
                ann.send("bonds", "IBM seen at 102", [TRACE])  # names what ann has read
                ann.flush()
            consumer.commit()
        assert not consumer.holes
        assert not consumer.disorders


if __name__ == "__main__":
    main(*sys.argv[1:])
