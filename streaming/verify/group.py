"""The judge of discipline `group`: guarantees 2, 3 and 5, accounting, memberships and stamps.

Faults by name. Of one delivery: `bad-output` (headers missing, no numbers, stamps that are none, or
another subscriber's topic), `wrong-partition`, `hole`, `disorder`, `repeat`, `rewritten` (of
`sequence` and `incarnation`). Of a message: `two-contents` (one number, two contents), `stamps-
differ`, `wrong-stamps` (of overlaps that the subscriber is not in, or too few), `membership` (a
delivery to a stranger), `wrong-version` (of no membership of the group), `missing-delivery`,
`delivered-twice`. Of order: `group-order`, `overlap-order`, `overlap-start` (an overlap's numbers
do not begin at 0), `pairwise-order`, `acyclic`, `sender-order`, `causality`. Of inputs: `invented`
(no such input, or altered), `rejected-and-delivered`, `lost` (a later one of its sender and group
was delivered), `unfinished` (not there although it had its time), `reject-altered`, `reject-
repeat`, `wrong-reason`, `bad-cause` (no delivery lies where an input says, or causes form a cycle).
Of notices: `wrong-notice` (of no change, another place or word, or missing at others). Of commands
and events: `unanswered`, `answered-twice`, `wrong-answer`, `invented-answer`, `bad-event`,
`event-repeat`, `missing-event`, `wrong-event`, `invented-event`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from sequencer.judging.invariants import MEMBERSHIP
from streaming.places import Place
from streaming.verify import accounts
from streaming.verify.accounts import (
    REFUSALS,
    Material,
    Messages,
    SenderLines,
    causal_pairs,
    judge_rejects,
    match,
    refused_copies,
)
from streaming.verify.columns import Column, paced
from streaming.verify.commands import by_subject, coordinates, may_be_forgotten, unanswered
from streaming.verify.evidence import Evidence, histories_of
from streaming.verify.faults import Verdict
from streaming.verify.group_deliveries import GroupDeliveries
from streaming.verify.group_notices import judge_notices, versions_begun
from streaming.verify.group_places import judge_absences, judge_places, judge_removals
from streaming.verify.group_stamps import StampJudge
from streaming.verify.histories import text
from streaming.verify.inputs import is_due
from streaming.verify.memberships import (
    OPS,
    Group,
    Members,
    judge_events,
    judge_versions,
    replay,
)
from streaming.verify.moved_groups import judge_beginnings, judge_moves
from streaming.verify.refused_commands import judge_group_refusals
from streaming.verify.versions import Version, assign, passed


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings(accounts.Settings):
    """What the judge must know of the pipeline's configuration.

    ``by_batch``: a group's version and its overlaps' numbers change by its own memberships alone.
    ``stamps``: whether deliveries must have them.
    """

    groups: Mapping[str, frozenset[str]]
    across_groups: bool = False
    by_batch: bool = False
    stamps: bool = True


def judge(
    settings: GroupSettings, material: Material, causes: Iterable[tuple[Place, Place]] = ()
) -> Verdict:
    """Look for every fault; time is linear in the records as long as all is well.

    What is kept of each record lies in files (`streaming.verify.columns`).

    ``causes``: places of inputs (cause, effect), the effect sent by a subscriber after it read the
    cause, besides those that inputs name (`Settings.cause_header`). Pairs without a delivery are
    passed over.
    """
    verdict = Verdict(settings.pipeline)
    work = _Judge(settings, verdict, material)
    work.judge_inputs()
    work.judge_members()
    work.judge_stamps()
    work.judge_orders(causes)
    work.judge_endings()
    return verdict


ABSENT = ("unknown-group", "removed-group")
"""Reasons of rejects: there is no such group."""


class _Judge(Evidence):
    def __init__(self, settings: GroupSettings, verdict: Verdict, material: Material) -> None:
        self.settings = settings
        self.histories = histories_of(settings, verdict)
        prefix = settings.header_prefix
        self.deliveries = GroupDeliveries(verdict, self.histories, settings.output, prefix)
        super().__init__(settings, verdict, material, self.deliveries, OPS, ("group",))
        changes_of = by_subject(self.commands)
        self.groups = replay(verdict, settings.groups, changes_of)
        begun = versions_begun(self.events) if settings.by_batch else None
        judge_group_refusals(verdict, self.groups, changes_of, begun)
        due = all(is_due(command.place, settings.due) for command in self.commands)
        self.pinned, changes = judge_events(verdict, self.groups, self.events, due=due)
        if settings.by_batch:  # the members of version 0 stand in the file, in no event
            first = {(name, 0): g.memberships[0] for name, g in self.groups.items() if g.configured}
            self.pinned = first | self.pinned
        else:
            judge_moves(verdict, self.groups, self.events, self.commands)
            judge_beginnings(verdict, self.groups, self.events, self.deliveries, due=due)
        judge_notices(verdict, self.deliveries.notices, self.events, changes, settings.due)
        self.pending: list[tuple[bytes, list[int]]] = []
        self.of = Column()
        self.undelivered: set[tuple[bytes, int]] = set()
        self.refused: dict[int, set[bytes]] = {}

    def judge_inputs(self) -> None:
        """Rejects, and the input of every message."""
        deliveries, verdict = self.deliveries, self.verdict
        repeats = self.settings.repeats_allowed
        judge_rejects(verdict, self.inputs, self.rejects, self._fits, repeats=repeats)
        messages = Messages(deliveries.contents, deliveries.name)
        order, settings = deliveries.in_order(), self.settings
        self.of, unsure = match(verdict, self.inputs, order, messages, self.histories, settings)
        # What was refused at a command's place is a notice of it (`judge_notices`).
        changes = {command.place for command in self.commands}
        about_inputs = [event for event in self.events if coordinates(event) not in changes]
        self.refused = refused_copies(verdict, self.inputs, about_inputs, self.histories)
        self.undelivered = {
            (key, self.inputs.message[record])
            for record, keys in self.refused.items()
            for key in keys
        }
        of = self.of.copy()
        for message in unsure:
            of[message] = -1
        begun = versions_begun(self.events)
        judge_places(verdict, self.commands, begun, deliveries.names, self.inputs, of)
        places = (each.origin for each in self.rejects if each.reason in ABSENT)
        absent = [found for place in places if (found := self.inputs.find(place)) is not None]
        judge_removals(verdict, self.groups, begun, deliveries.names, self.inputs, of, absent)
        judge_absences(verdict, self.groups, deliveries.names, self.inputs, of, absent)
        lines = SenderLines(verdict, self.inputs, self.of, unsure)
        lines.judge(
            deliveries.in_order(),
            lambda message: deliveries.names[message][0],
            lambda one, two: f"{deliveries.name(one)} comes before {deliveries.name(two)}",
        )
        if not self.settings.across_groups:
            return
        for key, history in self.histories.by_key.items():

            def sent_earlier(one: int, two: int, key: bytes = key) -> str:
                first = f"{text(key)} got {deliveries.name(one)} ({self.histories.where(key, one)})"
                return f"{first} before {deliveries.name(two)} ({self.histories.where(key, two)})"

            lines.judge(history.messages, lambda _: None, sent_earlier)

    def _fits(self, record: int, reason: str) -> bool:
        """Return whether a reject's reason can be the right one, as far as the topics show."""
        there, name = self.inputs.headers[record][0]
        absent = not (there and name)
        if self.inputs.senders[record] is None:
            return reason == "missing-sender" or (absent and reason == "missing-group")
        if absent:
            return reason == "missing-group"
        if reason in REFUSALS:
            return True
        group = self.groups.get(name or b"", Group())
        if reason == "removed-group":
            return bool(group.removed)
        if reason != "unknown-group":
            return False
        limits = self.settings.retire_after_ms, self.settings.now_ms
        return not group.configured or any(may_be_forgotten(at, *limits) for at in group.removed)

    def judge_members(self) -> None:
        """Every message went to all members of one membership, and to nobody else."""
        if self.settings.by_batch:
            judge_versions(self.verdict, self.groups, self.deliveries.versions, self.pinned)
        pinned: defaultdict[bytes, dict[int, Members]] = defaultdict(dict)
        for (name, number), members in self.pinned.items():
            pinned[name][number] = members
        for name, versions in self.deliveries.versions.items():
            last = self.deliveries.last.get(name, {})
            group = self.groups.get(name)
            chosen = assign(versions, group, last, pinned[name])
            for number, version in sorted(versions.items()):
                if number in chosen and group is not None:
                    version.members = group.memberships[chosen[number]]
                self._judge_version(name, number, version, last)

    def _judge_version(
        self, name: bytes, number: int, version: Version, last: Mapping[bytes, tuple[int, int]]
    ) -> None:
        deliveries, verdict, histories = self.deliveries, self.verdict, self.histories
        strangers = version.got.keys() - version.members
        for key in sorted(strangers):
            for message in version.messages:
                if histories.has(key, message):
                    verdict.find(MEMBERSHIP, partial(self._stray, key, message, version))
        for key in sorted(version.members):
            if version.got.get(key, 0) == len(version.messages):
                continue
            must = passed(number, version, last.get(key))
            if version.got.get(key, 0) < must:
                behind = deliveries.names.find((name, *last[key]))
                lacking = self._lacking(key, version.messages.part(0, must))
                for message in filter(self._is_due, lacking):  # else Kafka may have refused it
                    verdict.find("missing-delivery", partial(self._lacks, key, message, behind))
            late = [*self._lacking(key, version.messages.part(must, len(version.messages)))]
            if late:
                self.pending.append((key, late))

    def _lacking(self, key: bytes, messages: Iterable[int]) -> Iterator[int]:
        """Yield the messages that a key has not got, though the output took them for it."""
        for message in messages:
            if not self.histories.has(key, message) and (key, message) not in self.undelivered:
                yield message

    def _stray(self, key: bytes, message: int, version: Version) -> str:
        known = ", ".join(sorted(map(text, version.members))) or "nobody: there is no such group"
        name, where = self.deliveries.name(message), self.histories.where(key, message)
        return f"{text(key)} got {name} ({where}); its members are {known}"

    def _lacks(self, key: bytes, message: int, behind: int) -> str:
        deliveries, histories = self.deliveries, self.histories
        witness = f"{text(key)} never got {deliveries.name(message)}, got by"
        after = f"it got {deliveries.name(behind)} ({histories.where(key, behind)})"
        return f"{witness} {histories.first_place(message)}; behind its place {after}"

    def judge_stamps(self) -> None:
        """Each delivery has a stamp of every overlap that its subscriber is in, and of no other."""
        settings, deliveries = self.settings, self.deliveries
        judged = StampJudge(self.verdict, deliveries, self.groups, self.pinned, settings.by_batch)
        refused = any(reject.reason in REFUSALS for reject in self.rejects)
        refused = refused or any(event.kind == "undelivered" for event in self.events)
        is_due = None if refused or not settings.stamps else self._is_due
        judged.judge(needed=settings.stamps, is_due=is_due)

    def _is_due(self, message: int) -> bool:
        """Return whether the input of a message had its time, or there is none."""
        return self.of[message] < 0 or self.inputs.due(self.of[message], self.settings.due)

    def judge_orders(self, causes: Iterable[tuple[Place, Place]]) -> None:
        """One order of all messages agrees with what every subscriber got, and with the causes."""
        late = filter(self._must_come, self.pending)
        due = self.settings.due
        count, progress = len(self.deliveries.names), self.settings.progress
        pairs = causal_pairs(self.verdict, self.inputs, self.histories, count, due, causes)
        self.histories.orders(count, self.deliveries.name, late, pairs, progress)

    def _must_come(self, late: tuple[bytes, list[int]]) -> bool:
        """Whether a subscriber is a member in every membership that explains who got a message."""
        key, messages = late
        name, number, _ = self.deliveries.names[messages[0]]
        if (name, number) in self.pinned:
            return True
        got = self.deliveries.versions[name][number].got.keys()
        return all(
            key in membership for membership in self.groups[name].memberships if got <= membership
        )

    def judge_endings(self) -> None:
        """Every input is a message, a reject, or not there yet; every command has its answer."""
        inputs, verdict, due = self.inputs, self.verdict, self.settings.due
        held = 0
        following: dict[tuple[int, bytes | None, bytes | None], int] = {}
        missing: dict[int, int] = {}
        records = range(len(inputs) - 1, -1, -1)
        for record in paced(records, "judging inputs", len(inputs), self.settings.progress):
            name = (inputs.partition[record], inputs.senders[record], inputs.headers[record][0][1])
            if inputs.message[record] >= 0:
                following[name] = inputs.message[record]
            elif not (inputs.rejected[record] or self._is_undelivered(record)):
                missing[record] = following.get(name, -1)
        for record in sorted(missing):
            later, is_due = missing[record], inputs.due(record, due)
            if is_due and later >= 0 and self._certainly_lost(later):
                verdict.find("lost", partial(self._lost, record, later))
            else:
                held += 1
                if is_due:
                    witness = f"{inputs.where(record)} is neither delivered nor rejected"
                    verdict.find("unfinished", witness)
        held += self._unfinished_deliveries()
        waiting = unanswered(verdict, self.commands, due)
        verdict.looked_at = {
            "inputs": len(inputs),
            "messages": len(self.deliveries.names),
            "deliveries": self.histories.count,
            "subscribers": len(self.histories.by_key),
            "groups": len(self.groups),
            "rejects": len(self.rejects),
            "commands": len(self.commands),
            "unanswered": waiting,
            "held": held,
        }

    def _is_undelivered(self, record: int) -> bool:
        """Whether events say of each member, of some membership, that Kafka refused its copy."""
        refused = self.refused.get(record, set())
        group = self.groups.get(self.inputs.headers[record][0][1] or b"", Group())
        return bool(refused) and any(members <= refused for members in group.memberships)

    def _unfinished_deliveries(self) -> int:
        """Return how many messages some members have and others have not yet."""
        partly = set()
        for key, messages in self.pending:
            for message in messages:
                partly.add(message)
                record = self.of[message]
                if record >= 0 and self.inputs.due(record, self.settings.due):
                    self.verdict.find("unfinished", partial(self._late, key, message))
        return len(partly)

    def _late(self, key: bytes, message: int) -> str:
        witness = f"{text(key)} has not got {self.deliveries.name(message)}"
        place = self.inputs.where(self.of[message])
        return f"{witness}, input {place}, got by {self.histories.first_place(message)}"

    def _lost(self, record: int, later: int) -> str:
        witness = f"{self.inputs.where(record)} was not delivered; {self.deliveries.name(later)} is"
        where = f"sent later, got by {self.histories.first_place(later)}"
        return f"{witness} {self.inputs.where(self.of[later])}, {where}"

    def _certainly_lost(self, later: int) -> bool:
        """Return whether someone who has a later message must have had all before it of its group.

        True where a subscriber is in all memberships up to the later message's: whichever version
        the missing one would be of, it would have come before.
        """
        name, version, _ = self.deliveries.names[later]
        group = self.groups.get(name, Group())
        got = self.deliveries.versions[name][version].got.keys()
        fits = [at for at, members in enumerate(group.memberships) if got <= members]
        if group.removed or group.added or not fits:
            return False
        through = frozenset.intersection(*group.memberships[: fits[-1] + 1])
        last = self.deliveries.last[name]
        return any(last.get(key, (-1, -1)) >= self.deliveries.names[later][1:] for key in through)
