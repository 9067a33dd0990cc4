"""What workers need to know of a pipeline of discipline `channel`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, ClassVar, Self

from sequencer.channels import ChannelEvent, Op, Rules, ShardState
from sequencer.channels.delays import Quantile
from sequencer.channels.rules import POLICIES, Full
from streaming.disciplines.plan import BatchContext, Plan
from streaming.settings.fields import ValueField


def _decided(rules: Rules) -> dict[str, Any]:
    """Return one rule's values as JSON, without the labels."""
    return {
        "gap": rules.gap.word,
        "gap_after_ms": rules.gap.after_ms,
        "gap_by": None if rules.gap.by is None else astuple(rules.gap.by),
        "held_max": rules.held_max,
        "window": rules.window,
        "full": rules.full.value,
        "retire_after_ms": rules.retire_after_ms,
        "drop_duplicates": rules.drop_duplicates,
        "pass_unlabelled": rules.pass_unlabelled,
        "notices": rules.notices,
        "settle_ms": rules.settle_ms,
        "ask_ms": rules.ask_ms,
    }


def _under(rules: Rules, decided: Mapping[str, Any]) -> Rules:
    """Return the inverse of :func:`_decided`; the labels are those of ``rules``."""
    by = None if decided["gap_by"] is None else Quantile(*decided["gap_by"])
    flags = ("drop_duplicates", "pass_unlabelled", "notices", "settle_ms", "ask_ms")
    same = ("held_max", "window", "retire_after_ms", *flags)
    return replace(
        rules,
        gap=POLICIES[decided["gap"]](decided["gap_after_ms"], by),
        full=Full(decided["full"]),
        **{name: decided[name] for name in same},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPlan(Plan):
    """One pipeline of discipline ``channel``.

    ``label`` and ``channel`` are SQL expressions, or fields of the value; the two defaults
    (``header('label')`` and ``key``) and fields do not need Spark. ``gives_labels``: records'
    labels, epochs and FIN are ignored, and deliveries get their numbers as labels. ``ops``: the
    commands that operators may give. ``input_commands``: the operations of inputs' records.
    """

    discipline: ClassVar[str] = "channel"
    counts_pauses: ClassVar[bool] = True
    decided: ClassVar[tuple[str, ...]] = (*Plan.decided, "input_commands")
    gives_labels: ClassVar[bool] = False
    ops: ClassVar[tuple[Op, ...]] = tuple(Op)
    commands: str
    rules: Rules
    wanted: str = ""
    channel: str | ValueField = "key"
    label: str | ValueField = "header('label')"
    input_commands: Sequence[str] = ()

    def decisions(self) -> dict[str, Any]:
        """Return the rules without the labels, which a checkpoint fixes."""
        others = [[glob, _decided(rules)] for glob, rules in self.rules.others]
        return {**Plan.decisions(self), **_decided(self.rules), "rules": others}

    def pinned(self) -> dict[str, str]:
        """Return also the label: records are read before anything is known of their batch."""
        return {**Plan.pinned(self), "wanted": self.wanted, "label": str(self.label)}

    def under(self, decisions: Mapping[str, Any]) -> Self:
        """Return this plan with a batch's decisions (see `Plan.under`)."""
        values = {**self.decisions(), **decisions}
        pauses = tuple((at_ms, length) for at_ms, length in values.get("pauses", ()))
        rules = replace(
            self.rules,
            pauses=pauses,
            caught_up_ms=values.get("caught_up_ms"),
            behind_ms=values.get("behind_ms", 0),
            others=(),
        )
        own = _under(rules, values)
        others = tuple((glob, _under(own, decided)) for glob, decided in values["rules"])
        return replace(Plan.under(self, decisions), rules=replace(own, others=others))

    def for_batch(self, context: BatchContext) -> ChannelPlan:
        """Return the plan for a batch: one that is repeated after a start does not fail for a gap.

        It was planned before an operator could send the missing label.
        """
        return replace(self, rules=self.rules.for_repeat) if context.repeated else self

    def before_batch(
        self, state: ShardState, _now_ms: int
    ) -> tuple[ShardState, list[ChannelEvent]]:
        """Return the state to which a batch's records come, and events before them."""
        return state, []

    def delivers_to(self, topic: str) -> bool:
        """Return whether a topic gets deliveries; requests for missing labels are none."""
        return topic != self.wanted and Plan.delivers_to(self, topic)

    def identifying(self) -> tuple[str, ...]:
        """Return the headers that count deliveries."""
        return self.headers("incarnation"), self.headers("sequence")

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the inputs, then the commands topic."""
        return (*self.inputs, self.commands)

    @property
    def reads_values(self) -> bool:
        """Return whether channel or label are in records' values."""
        return isinstance(self.channel, ValueField) or isinstance(self.label, ValueField)

    @property
    def has_blocks(self) -> bool:
        """Return whether large values are compressed one by one (`streaming.wire.blocks`)."""
        return self.compression == "lz4"

    @property
    def keyed(self) -> bool:
        """Return whether the channel is the record's key, so that it need not be sent twice."""
        return self.channel == "key"
