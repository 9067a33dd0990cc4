"""What the topics of a pipeline say, read as the judges of `group` and `multicast` both need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from streaming.verify.accounts import Material, Settings, read_rejects
from streaming.verify.columns import paced
from streaming.verify.commands import answer, read_command, read_events, without_commands
from streaming.verify.faults import Verdict
from streaming.verify.histories import Histories
from streaming.verify.inputs import Inputs
from streaming.verify.records import Record


class Deliveries(Protocol):
    """A discipline's deliveries, each compared with all before it."""

    def take(self, record: Record) -> None:
        """Take the next delivery."""

    def finish(self) -> None:
        """Compare what can be compared when all have been taken."""


class Evidence:
    """Rejects, events, commands with their answers, and inputs, behind the deliveries.

    ``ops``: of commands (see `commands.read_command`); ``headers``: of inputs.
    """

    def __init__(
        self,
        settings: Settings,
        verdict: Verdict,
        material: Material,
        deliveries: Deliveries,
        ops: Mapping[str, tuple[str, str | None]],
        headers: Sequence[str],
    ) -> None:
        self.verdict = verdict
        for record in paced(material.outputs):
            deliveries.take(record)
        deliveries.finish()
        repeats = settings.repeats_allowed
        self.rejects = read_rejects(verdict, material.rejects, settings.header_prefix)
        self.events = read_events(verdict, material.events, repeats=repeats)
        self.commands = [read_command(record, ops) for record in material.commands]
        messages = without_commands(material.inputs, settings.input_commands, ops, self.commands)
        self.inputs = Inputs(messages, tuple(headers), settings.cause_header)
        answer(verdict, self.commands, self.events)


def histories_of(settings: Settings, verdict: Verdict) -> Histories:
    """Return the histories of all receivers, empty yet."""
    repeats = settings.repeats_allowed
    return Histories(verdict, settings.partitions, repeats_allowed=repeats)


def find_two_contents(
    verdict: Verdict, histories: Histories, record: Record, message: int, name: str
) -> None:
    """Report a delivery that has another content than the first one of its message."""
    verdict.find(
        "two-contents",
        lambda: (
            f"{record} and {histories.first_place(message)} are both {name}, "
            "with different bytes, headers or timestamps"
        ),
    )
