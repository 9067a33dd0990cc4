"""One channel, one record at a time: the definition that the vectorised step must agree with.

The field's names: a receive buffer that restores the order of a label sequence, as the ordered
proxy of "In-Order Message Delivery" (2011), with epochs, FIN, gaps and bounds of the contract.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sequencer.channels.happened import Buffer, Range, Results, Waiting, with_range
from sequencer.channels.outcome import ChannelEvent, GapFailure, GapName, Reason
from sequencer.channels.rules import SKIPPED_RANGES_MAX, Full, Rules
from sequencer.channels.state import NONE
from sequencer.labels import label_or_none


@dataclass(slots=True)
class Channel:
    """State of one channel. ``exists`` is False until its first record is accepted.

    ``start``: see `state.ShardState`; while it is not known, the channel *settles*.

    ``rules`` are the channel's own; ``rule``: their number.

    ``refused``: rows that cannot be delivered, with the reason; see `step`. ``since_ms``: the least
    incarnation of a channel that begins anew after a reset.

    ``absent``: ascending ranges of positions whose missing labels were declared lost; they are
    given up when they are next.
    """

    key: bytes
    rules: Rules
    results: Results
    refused: Mapping[int, Reason] = field(default_factory=dict)
    rule: int = 0
    exists: bool = False
    epoch: int = 0
    frontier: int = 0
    sequence: int = 0
    incarnation: int = 0
    fin: int = NONE
    active_ms: int = 0
    trailing: int = 0
    since_ms: int = 0
    start: int = 0
    held: Buffer = field(default_factory=Buffer)
    skipped: list[Range] = field(default_factory=list)
    absent: list[tuple[int, int]] = field(default_factory=list)

    def arrive(self, in_cycle: int, epoch: int, row: int, now_ms: int, *, fin: bool) -> None:
        """Take one record; ``in_cycle`` is its label's position within the cycle.

        ``epoch``: -1 if it is not a number.
        """
        newer = self.exists and epoch > self.epoch
        fresh = newer or not self.exists
        position = self.rules.position(in_cycle, 0 if fresh else self.frontier)
        reason = self._judge(position, epoch, fresh=fresh)
        if self.exists and reason not in (Reason.BAD_LABEL, Reason.BAD_EPOCH):
            self.active_ms = now_ms
        if reason is not None:
            self.reject(row, reason)
            if reason is Reason.LATE:
                self._note_lost(row, position)
                for gap in self._gaps_at(position)[:1]:
                    if gap.since_ms:  # else no delays were measured then
                        self._measure(gap.since_ms, now_ms)
            return
        if not self.exists:
            self.begin(now_ms)
            self.epoch = epoch
        elif newer:
            self._take_over(epoch, now_ms)
        self._accept(position, Waiting(row, now_ms, fin), now_ms)

    def reject(self, row: int, reason: Reason) -> None:
        """Reject a record, behind the last delivery so far."""
        last = self.sequence - 1 - self.trailing
        self.results.rejected.append((row, reason, self.incarnation, last))

    def _deliver(self, row: int) -> None:
        self.results.delivered.append((row, self.sequence, self.incarnation))
        self.sequence += 1
        self.trailing = 0

    def _announce(self, event: ChannelEvent) -> None:
        """Report an event; with notices, also as a record in the channel's stream."""
        if event.kind != "reset":  # the command's answer reports that
            self.results.events.append(event)
        if self.rules.notices:
            self.results.notices.append(event)
            trailing = self.trailing + 1
            self._deliver(-len(self.results.notices))
            self.trailing = trailing

    def _gaps_at(self, position: int) -> list[Range]:
        """Return the given-up range that has a position; empty if it was not given up."""
        return [each for each in self.skipped if each.first <= position < each.stop]

    def _measure(self, since_ms: int, now_ms: int) -> None:
        """Count the delay of a message that the channel has waited for since ``since_ms``."""
        if self.rules.gap.by is not None:
            self.results.delays.append((self.rule, int(now_ms - self.rules.counted(since_ms))))

    def pass_on(self, row: int, now_ms: int) -> None:
        """Deliver a record without a label where it arrives; nothing waits for it."""
        if not self.exists:
            self.begin(now_ms)
        self.active_ms = now_ms
        reason = self.refused.get(row)
        if reason is not None:
            self.reject(row, reason)
            return
        self._deliver(row)
        self.results.passed += 1

    def _judge(self, position: int, epoch: int, *, fresh: bool) -> Reason | None:  # noqa: PLR0911
        """Return the first reason to reject the record, in the contract's order."""
        frontier = 0 if fresh else self.frontier
        if self.rules.is_beyond_search(position, frontier):
            return Reason.BAD_LABEL
        if epoch < 0:
            return Reason.BAD_EPOCH
        if self.exists and epoch < self.epoch:
            return Reason.STALE_EPOCH
        if not fresh and self.fin != NONE and position > self.fin:
            return Reason.AFTER_FIN
        settles = self.rules.settle_ms is not None and (fresh or self.start == NONE)
        if settles:  # nothing is in the past yet
            frontier = min(position, frontier) if self.held and not fresh else position
        if position - frontier > self.rules.window:
            return Reason.OUTSIDE_WINDOW
        if position < frontier:
            late = not fresh and (position < self.start or bool(self._gaps_at(position)))
            return Reason.LATE if late and position >= 0 else Reason.DUPLICATE
        if fresh:
            return None
        if position in self.held:
            return Reason.DUPLICATE
        full = (settles or position != frontier) and len(self.held) >= self.rules.held_max
        return Reason.BUFFER_FULL if full and self.rules.full is Full.REJECT else None

    def _take_over(self, epoch: int, now_ms: int) -> None:
        """Begin a higher epoch: deliver the old one's held messages, and report its gaps."""
        if self.held and self.start == NONE:
            self.begin_at(self.frontier, now_ms)
        while self.held:
            self._give_up(self.held.lowest(NONE), "epoch", now_ms)
        self._announce(
            ChannelEvent("epoch", self.key, self.incarnation, epoch, 0, {"previous": self.epoch})
        )
        self.epoch = epoch
        self.frontier, self.start = 0, self.rules.first_start
        self.fin = NONE
        self.skipped, self.absent = [], []

    def _accept(self, position: int, message: Waiting, now_ms: int) -> None:
        if self.rules.gap.by is not None:
            self._measure(self.held.since_ms_above(position, now_ms), now_ms)
        self.held[position] = message
        if message.fin:
            self.fin = position
            for beyond in self.held.pop_above(position):
                self.reject(beyond.row, Reason.AFTER_FIN)
            self.absent = [(a, min(b, position)) for a, b in self.absent if a < position]
        if self.start == NONE:
            alone = len(self.held) == 1
            self.frontier = position if alone else min(self.frontier, position)
            if len(self.held) > self.rules.held_max and self.rules.full is Full.SKIP:
                self.begin_at(self.frontier, now_ms)
        else:
            self._deliver_run(now_ms)
        # With REJECT there are more only if the rules changed, for which nothing is given up.
        while len(self.held) > self.rules.held_max and self.rules.full is Full.SKIP:
            self._give_up(self.held.lowest(NONE), "overflow", now_ms)

    def _deliver_run(self, now_ms: int) -> None:
        """Deliver from the frontier up to the first label that is waited for."""
        self._deliver_held(now_ms)
        while self.absent and self.absent[0][0] <= self.frontier:
            if self.absent[0][1] <= self.frontier:
                del self.absent[0]
                continue
            end = self.absent[0][1]
            stop = min(self.held.lowest(end), end)
            self._note_gap(stop, "not-coming", now_ms - self._waited_ms(now_ms), now_ms)
            self.frontier = stop
            self._deliver_held(now_ms)

    def _deliver_held(self, now_ms: int) -> None:
        while (message := self.held.pop(self.frontier, None)) is not None:
            reason = self.refused.get(message.row)
            if reason is None:
                self._deliver(message.row)
            else:
                self.reject(message.row, reason)
                self._note_gap(self.frontier + 1, reason.text, message.since_ms, now_ms)
                self._note_lost(message.row, self.frontier)
            if message.fin:
                self._note_fin(delivered=reason is None)
            self.frontier += 1

    def _note_fin(self, *, delivered: bool) -> None:
        """Report that the channel has ended; a FIN that was not delivered has no sequence."""
        fields: dict[str, Any] = {"label": self.rules.labels.at(self.frontier)}
        fields |= {"sequence": self.sequence - 1} if delivered else {}
        self._announce(
            ChannelEvent("fin", self.key, self.incarnation, self.epoch, self.frontier, fields)
        )

    def _give_up(self, stop: int, reason: str, now_ms: int) -> None:
        """Give up the labels from the frontier up to ``stop``, and deliver what that frees.

        None of them is held.
        """
        self._note_gap(stop, reason, now_ms - self._waited_ms(now_ms), now_ms)
        self.frontier = stop
        self._deliver_run(now_ms)

    def _note_gap(self, stop: int, reason: str, since_ms: int, now_ms: int) -> None:
        """Report that the labels from the frontier up to ``stop`` are given up; remember it."""
        labels = self.rules.labels
        gap: dict[str, Any] = {
            "from": labels.at(self.frontier),
            "to": label_or_none(labels, stop),
            "count": stop - self.frontier,
            "waited_ms": now_ms - since_ms,
            "reason": reason,
        }
        self._announce(
            ChannelEvent("gap", self.key, self.incarnation, self.epoch, self.frontier, gap)
        )
        kept_ms = 0 if self.rules.gap.by is None else since_ms
        self.skipped.append(Range(self.frontier, stop, self.incarnation, since_ms=kept_ms))
        if len(self.skipped) > SKIPPED_RANGES_MAX:
            one, two, *others = self.skipped
            both = Range(one.first, two.stop, one.incarnation, one.gaps + two.gaps, one.since_ms)
            self.skipped = [both, *others]

    def _note_lost(self, row: int, position: int) -> None:
        """Name the gap that gave a rejected record's label up, unless it is one of several."""
        for each in self.skipped:
            if each.first <= position < each.stop and each.gaps == 1:
                name = GapName(self.key, each.incarnation, self.epoch, each.first)
                self.results.gaps[row] = name

    def expire(self, now_ms: int) -> None:
        """Begin if the time to settle is over; apply the gap policy to a gap that is due."""
        policy, settle_ms = self.rules.gap, self.rules.settle_ms
        if self.start == NONE and settle_ms is not None:
            if not self.held or not self._is_over(settle_ms, now_ms):
                return
            self.begin_at(self.frontier, now_ms)
        while self.held and policy.after_ms is not None:
            if not self._is_over(policy.after_ms, now_ms):
                return
            policy.end(self, now_ms)

    def pass_gap(self, now_ms: int) -> None:
        """Give up the missing labels below the lowest held one, as they took too long."""
        self._give_up(self.held.lowest(NONE), "timeout", now_ms)

    def fail(self, now_ms: int) -> None:
        """Raise GapFailure for the label that is next."""
        first = self.rules.labels.at(self.frontier)
        raise GapFailure(self.key, self.epoch, first, self._waited_ms(now_ms))

    def _waited_ms(self, now_ms: int) -> int:
        """Return how long the oldest held message has waited; 0 if none is held."""
        return now_ms - self.held.since_ms(now_ms)

    def _is_over(self, length_ms: int, now_ms: int) -> bool:
        """Return whether the oldest held message has waited for this time."""
        return bool(self.rules.waited(self.held.since_ms(now_ms), now_ms) >= length_ms)

    def skip_to(self, in_cycle: int | None) -> int:
        """Return the position up to which a skip gives up; ``in_cycle`` None: the lowest held one.

        It is at most the one behind a FIN; the frontier if there is nothing to skip.
        """
        stop = self.held.lowest(self.frontier)
        if in_cycle is not None:
            stop = self.rules.position(in_cycle, self.frontier)
            stop = stop if self.fin == NONE else min(stop, self.fin + 1)
        return max(stop, self.frontier) if self.exists else self.frontier

    def begin_at(self, start: int, now_ms: int) -> None:
        """Stop settling: ``start`` is the first label; deliver what it frees."""
        self.start = self.frontier = start
        fields: dict[str, Any] = {
            "label": self.rules.labels.at(start),
            "waited_ms": self._waited_ms(now_ms),
        }
        self.results.events.append(
            ChannelEvent("started", self.key, self.incarnation, self.epoch, start, fields)
        )
        self._deliver_run(now_ms)

    def missing_below(self, stop: int, first: int) -> int:
        """Return the number of labels from ``first`` up to ``stop`` that are missing."""
        return stop - first - sum(position < stop for position in self.held)

    def pass_by(self, stop: int, now_ms: int) -> None:
        """Give up the missing labels below ``stop``, by an operator's command."""
        self.active_ms = now_ms
        self.absent = [(max(a, stop), b) for a, b in self.absent if b > stop]
        while self.frontier < stop:
            self._give_up(min(self.held.lowest(stop), stop), "operator", now_ms)

    def give_up_absent(self, first: int, stop: int, now_ms: int) -> int:
        """Give up a range's missing labels, which will not come: at once, or when they are next.

        Return their number, without those above the highest held one, which may still be sent.
        """
        first, stop = max(first, self.frontier), min(stop, max(self.held, default=0))
        some = range(first, stop) if stop - first < len(self.held) else self.held
        held = [(each, each + 1) for each in some if each in self.held]
        missing, at = 0, first
        for begin, end in sorted([*self.absent, *held]):
            missing += max(0, min(begin, stop) - at)
            at = max(at, end)
        missing += max(0, stop - at)
        if missing:
            self.active_ms = now_ms
            self.absent = with_range(self.absent, first, stop)
            self._deliver_run(now_ms)
        return missing

    def begin(self, now_ms: int) -> None:
        """Begin to exist, before any record."""
        self.exists = True
        self.incarnation, self.active_ms = max(now_ms, self.since_ms), now_ms

    def forget(self, command: int) -> None:
        """Cease to exist, by the command of this number; reject the held messages."""
        held = sorted(self.held.items())
        for _, message in held:
            self.reject(message.row, Reason.RESET)
        place = (self.incarnation, self.epoch, self.frontier)
        self._announce(ChannelEvent("reset", self.key, *place, {"command": command}))
        self.exists = False
        self.since_ms = self.incarnation + 1
        self.epoch = self.frontier = self.sequence = self.trailing = 0
        self.fin, self.start = NONE, self.rules.first_start
        self.held, self.skipped, self.absent = Buffer(), [], []
