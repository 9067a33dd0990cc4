"""Records without a label, which pass where they arrive."""

from __future__ import annotations

from collections import Counter

from streaming.verify.channel_readings import Reading
from streaming.verify.faults import Verdict
from streaming.verify.records import Record


class Passing:
    """Finds deliveries without a label that something of their channel overtook.

    What came later in the same partition must not be delivered earlier. Inputs with equal bytes
    are left out, as nothing says which of them was delivered.
    """

    def __init__(self, verdict: Verdict, inputs: list[Record]) -> None:
        self.verdict = verdict
        counts = Counter(record.content for record in inputs)
        self.place = {
            record.content: record.place for record in inputs if counts[record.content] == 1
        }
        self.highest: dict[tuple[bytes | None, str, int], int] = {}

    def take(self, record: Record, stripped: Record, reading: Reading) -> None:
        """Look at the next delivery of a channel; ``stripped``: as its input was."""
        place = self.place.get(stripped.content)
        if place is None:
            return
        topic, partition, offset = place
        source = (reading.channel, topic, partition)
        before = self.highest.get(source, -1)
        if reading.passes and offset < before:
            witness = f"its input is at offset {offset}, and that at {before} was delivered before"
            self.verdict.find("overtaken", f"{record} has no label: {witness}")
        self.highest[source] = max(offset, before)
