"""Records without a label, which pass where they arrive: nothing overtakes them, nor they it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from streaming.verify.channel_readings import Reading
from streaming.verify.faults import Verdict
from streaming.verify.records import Record


class Passing:
    """Finds deliveries without a label that overtook, or that something of their channel overtook.

    What came later in the same partition must not be delivered earlier: not before one without a
    label, and one without a label not before a record that waited for nothing. Inputs with equal
    bytes are left out, as nothing says which of them was delivered.
    """

    def __init__(self, verdict: Verdict, inputs: list[Record]) -> None:
        self.verdict = verdict
        counts = Counter(record.content for record in inputs)
        self.place = {
            record.content: record.place for record in inputs if counts[record.content] == 1
        }
        self.highest: dict[tuple[bytes | None, str, int], int] = {}
        self.passed: dict[bytes | None, dict[tuple[str, int], int]] = {}

    def take(
        self, record: Record, stripped: Record, reading: Reading, *, follows: bool, begins: bool
    ) -> None:
        """Look at the next delivery of a channel; ``stripped``: as its input was.

        ``follows``: no label is missing before it; ``begins``: it is the first of its incarnation.
        """
        if begins or not reading.passes:
            passed = self.passed.pop(reading.channel, {})
            self._judge_waited(record, stripped, {} if begins or not follows else passed)
        place = self.place.get(stripped.content)
        if place is None:
            return
        topic, partition, offset = place
        source = (reading.channel, topic, partition)
        before = self.highest.get(source, -1)
        if reading.passes and offset < before:
            witness = f"its input is at offset {offset}, and that at {before} was delivered before"
            self.verdict.find("overtaken", f"{record} came without a label: {witness}")
        self.highest[source] = max(offset, before)
        if reading.passes:
            passed = self.passed.setdefault(reading.channel, {})
            passed[topic, partition] = max(offset, passed.get((topic, partition), -1))

    def _judge_waited(
        self, record: Record, stripped: Record, passed: Mapping[tuple[str, int], int]
    ) -> None:
        """``passed``: the last inputs without a label since the label before was delivered."""
        place = self.place.get(stripped.content) if passed else None
        if place is not None and place[2] < passed.get(place[:2], -1):
            witness = f"its input is at offset {place[2]}, and that at {passed[place[:2]]}"
            without = "without a label, was delivered before"
            self.verdict.find("overtaken", f"{record} waited for nothing: {witness}, {without}")
