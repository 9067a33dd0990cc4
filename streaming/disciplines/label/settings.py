"""What users write for discipline `label`."""

from __future__ import annotations

from typing import ClassVar, Literal

from sequencer.channels import Rules
from sequencer.labels import LinearLabels
from streaming.disciplines.channels.settings import ByChannel


class LabelPipeline(ByChannel):
    """Discipline ``label``: each channel's records get labels by order of arrival.

    ``label``, ``duplicates``: as those of a channel pipeline; there is nothing to set.
    """

    discipline: Literal["label"]
    label: ClassVar[str] = "header('label')"
    duplicates: ClassVar[str] = "reject"

    def all_rules(self) -> Rules:
        """The rules of channels in which every record passes."""
        return Rules(LinearLabels(), retire_after_ms=self.retire_after.ms, pass_unlabelled=True)
