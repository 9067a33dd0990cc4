"""What workers need to know of a pipeline of discipline `channel`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sequencer.channels import Rules
from streaming.disciplines.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPlan(Plan):
    """One pipeline of discipline ``channel``.

    ``label`` and ``channel`` are SQL expressions; the two defaults (``header('label')`` and
    ``key``) take a faster way.
    """

    discipline: ClassVar[str] = "channel"
    commands: str
    rules: Rules
    channel: str = "key"
    label: str = "header('label')"
    drop_duplicates: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        """The inputs, then the commands."""
        return (*self.inputs, self.commands)

    @property
    def keyed(self) -> bool:
        """Whether the channel is the record's key, so that it need not travel twice."""
        return self.channel == "key"
