"""The judge of disciplines ``channel`` and ``label``: guarantees 1 and 5 of docs/guarantees.md.

Faults by name: `bad-output` (the service's headers are missing or no numbers, or a label that
discipline `label` gave is not the `sequence`, its epoch not the incarnation), `wrong-partition`,
`hole` (in `sequence`), `repeat`, `rewritten` (one (key, incarnation, sequence) with two contents),
`unannounced-start` (with labels that begin anywhere: no event says where), `disorder` (labels or
epochs go back), `overtaken` (a record without a label, or by one), `unannounced-gap`,
`early-gap` (before its time), `given-up-delivered`, `after-fin-delivered`, `bad-delivered` (it had
to be rejected), `invented` (no such input, or altered), `reject-altered`, `reject-repeat`, `lost`,
`wrong-reason`, `wrong-after`, `wrong-gap` (a reject's), `wrong-notice` (of no event or elsewhere),
`bad-event` (unreadable), `event-repeat`, `wrong-event` (a gap that ends elsewhere or overlaps).

Of commands: `unanswered`, `answered-twice`, `invented-answer`, `wrong-answer`, `unasked-gap` and
`wrong-count` (of labels that an operator gave up), `unexplained-restart` (an incarnation that
neither the event `retired` nor a reset explains), `misplaced-command` (a reset in an input).

Of what is asked for: `bad-wanted` (unreadable), `wrong-try`, `false-wanted` (it was not missing).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from streaming.arrow.key_text import key_from_json
from streaming.verify.accounts import REFUSALS
from streaming.verify.added import number, reject, tail, without
from streaming.verify.channel_commands import Own, judge_commands, judge_resets, own_commands
from streaming.verify.channel_endings import judge_endings
from streaming.verify.channel_events import judge_events
from streaming.verify.channel_gaps import judge_gap_times
from streaming.verify.channel_notices import WORDS, Notices
from streaming.verify.channel_passing import Passing
from streaming.verify.channel_readings import (
    ChannelLife,
    ChannelRule,
    ChannelSettings,
    CommandedChannels,
    Judging,
    Material,
    Reading,
    announced,
    covered,
    read_all,
    starts_in,
    with_unknown_schemas,
)
from streaming.verify.channel_rejects import judge_rejects
from streaming.verify.channel_tally import Tally
from streaming.verify.channel_wanted import judge_wanted
from streaming.verify.faults import Verdict
from streaming.verify.homes import Fits, Homes
from streaming.verify.inputs import Ends
from streaming.verify.notices import Notice, read_notice
from streaming.verify.records import Record

__all__ = ["ChannelRule", "ChannelSettings", "Material", "judge", "judge_part"]


def judge(settings: ChannelSettings, material: Material, due: Ends = None) -> Verdict:
    """Look for every fault; linear in the number of records.

    ``due``: how far inputs must be worked through and commands answered by now.
    """
    verdict = Verdict(settings.pipeline)
    own, material = own_commands(material, settings)
    asked = judge_commands(verdict, settings, material.commands, material.events, own, due)
    return judge_part(verdict, settings, material, own, asked, due=due)


def judge_part(
    verdict: Verdict,
    settings: ChannelSettings,
    material: Material,
    own: list[Own],
    asked: CommandedChannels,
    few: set[ChannelRule] | None = None,
    fits: Fits | None = None,
    due: Ends = None,
) -> Verdict:
    """Look for faults of some channels, all of whose records are the material.

    ``own``: commands in the inputs, ``asked``: what commands explain, ``few``: rules that had few
    messages (`channel_gaps`); of all channels. ``fits``: see `Homes`. ``due``: see :func:`judge`.
    """
    work = Judging(settings, material, verdict, due, asked=asked)
    verdict.look(
        inputs=len(material.inputs),
        deliveries=len(material.outputs),
        rejects=len(material.rejects),
        events=len(material.events),
    )
    readings = with_unknown_schemas(read_all(material.inputs, settings), material, settings)
    _note_gaps(work)
    judge_events(work)
    work.starts = starts_in(material.events, settings)
    work.retired = {
        (key_from_json(event["channel"]), event["incarnation"])
        for event in material.events
        if event["event"] == "retired"
    }
    delivered = _judge_outputs(work, fits)
    judge_resets(work, own)
    said = [reject(record, settings.header_prefix) for record in material.rejects]
    tally = Tally(material.inputs, readings, said)
    rejected = judge_rejects(work, readings, tally, said)
    judge_gap_times(work, readings, few)
    judge_wanted(work, readings, rejected)
    judge_endings(work, readings, delivered, rejected, tally)
    return verdict


def _note_gaps(work: Judging) -> None:
    gaps = announced(work.material.events, work.settings, len(work.material.inputs))
    cycle = work.settings.labels.cycle
    for (name, incarnation, epoch, reason), ranges in gaps.items():
        work.gaps.setdefault((name, incarnation, epoch), []).extend(ranges)
        if reason in REFUSALS:
            work.refused.update(
                (name, epoch, at if cycle is None else at % cycle, reason)
                for begin, end in ranges
                for at in range(begin, end)
            )
        stops = work.passed.setdefault(name, {})
        stops.update(((incarnation, epoch, begin), end) for begin, end in ranges)
    for (name, _, epoch), ranges in work.gaps.items():
        work.given_up.setdefault((name, epoch), []).append(ranges)


def _judge_outputs(work: Judging, fits: Fits | None) -> Counter[Any]:
    """Order, sequences, gaps and partitions; how often each content was delivered."""
    settings, verdict, material = work.settings, work.verdict, work.material
    bare = [without(record, len(settings.added)) for record in material.outputs]
    readings = read_all(bare, settings)
    topics = {record.topic for record in material.outputs}
    homes = Homes(verdict, dict.fromkeys(topics, settings.output_partitions), fits)
    passing = Passing(verdict, material.inputs if settings.pass_unlabelled else [])
    delivered: Counter[Any] = Counter()
    notices = Notices(work)
    for record, stripped, reading in zip(material.outputs, bare, readings, strict=True):
        notice = read_notice(record, settings.header_prefix, WORDS)
        if notice is not None and min(notice.sequence, notice.incarnation) >= 0:
            homes.take(record, record.key or b"")
            _note_notice(work, record, notice, notices)
            continue
        added = _added(record, settings)
        if added is None:
            verdict.find("bad-output", f"{record} does not end with {', '.join(settings.added)}")
            continue
        if reading.reason is not None or reading.channel is None:
            verdict.find("bad-delivered", f"{record} had to be rejected: {reading.reason}")
            continue
        homes.take(record, reading.channel)
        if _once(work, record, reading.channel, added):
            delivered[stripped.content] += 1
            name = (reading.channel, added[1], added[0])
            work.contents[name] = hash(stripped.content)
            _follow(work, record, reading, added)
            follows, begins = name in work.adjacent, added[0] == 0
            passing.take(record, stripped, reading, follows=follows, begins=begins)
    homes.finish()
    verdict.look(notices=len(notices.seen))
    return delivered


def _note_notice(work: Judging, record: Record, notice: Notice, notices: Notices) -> None:
    channel = record.key or b""
    if _once(work, record, channel, (notice.sequence, notice.incarnation)):
        life = _life(work, record, channel, notice.incarnation)
        if life is not None:
            _count(work, record, life, notice.sequence)
            notices.take(record, notice, life)


def _once(work: Judging, record: Record, channel: bytes, added: tuple[int, int]) -> bool:
    """Return whether this (channel, incarnation, sequence) comes for the first time."""
    sequence, incarnation = added
    name = channel, incarnation, sequence
    before = work.once.get(name)
    if before is None:
        work.once[name] = hash(record.content)
        return True
    if before != hash(record.content):
        work.verdict.find("rewritten", f"{record}: sequence {sequence} had another content before")
    elif not work.settings.repeats_allowed:
        work.verdict.find("repeat", f"{record}: sequence {sequence} was there before")
    return False


def _follow(work: Judging, record: Record, reading: Reading, added: tuple[int, int]) -> None:
    """Hold a delivery against the ones before it in its channel."""
    verdict, labels = work.verdict, work.settings.labels
    sequence, incarnation = added
    channel = reading.channel or b""
    life = _life(work, record, channel, incarnation)
    if life is None:
        return
    _count(work, record, life, sequence)
    if reading.passes:
        work.adjacent.add((channel, incarnation, sequence))
        return
    life.labelled += 1
    if reading.epoch < life.epoch:
        verdict.find("disorder", f"{record}: epoch {reading.epoch} follows {life.epoch}")
        return
    if reading.epoch > life.epoch:
        _begin_epoch(work, record, reading, life)
    place = reading.position
    if labels.cycle is not None:
        place = _nearest(place, work.reached(channel, life), labels.cycle)
    ahead = place - life.expected
    if ahead < 0:
        verdict.find("disorder", f"{record}: label {labels.at(reading.position)} was passed before")
        return
    if life.fin is not None:
        verdict.find("after-fin-delivered", f"{record} comes after the FIN of its epoch")
    _check_gap(work, record, reading, life, ahead)
    life.begins = False
    life.expected += ahead + 1
    if reading.fin:
        life.fin = life.expected - 1


def _nearest(position: int, reached: int, cycle: int) -> int:
    """Where a label lies over all turns of its cycle: up to half of one ahead, else in the past."""
    ahead = (position - reached) % cycle
    if reached and ahead > cycle // 2:  # at the beginning nothing is past
        ahead -= cycle
    return reached + ahead


def _count(work: Judging, record: Record, life: ChannelLife, sequence: int) -> None:
    """Hold the number of a channel's next record against the last one."""
    if sequence != life.sequence + 1:
        kind = "hole" if sequence > life.sequence else "disorder"
        work.verdict.find(kind, f"{record}: sequence {sequence} follows {life.sequence}")
    if life.ended:
        work.verdict.find("wrong-notice", f"{record} is behind the notice of its channel's reset")
    life.sequence = max(sequence, life.sequence)


def _begin_epoch(work: Judging, record: Record, reading: Reading, life: ChannelLife) -> None:
    start = work.start(reading.channel or b"", reading.epoch, life.incarnation)
    if start is None:
        start = reading.position
        what = f"label {work.settings.labels.at(start)} begins epoch {reading.epoch}"
        work.verdict.find("unannounced-start", f"{record}: {what}, and no event says so")
    life.epoch, life.expected, life.fin = reading.epoch, start, None
    life.begins = work.settings.first_seen


def _life(work: Judging, record: Record, channel: bytes, incarnation: int) -> ChannelLife | None:
    """The life that a delivery belongs to, perhaps a new one; None where that is over."""
    life = work.lives.get(channel)
    if life is not None and incarnation < life.incarnation:
        witness = f"{record}: incarnation {incarnation} after {life.incarnation}"
        work.verdict.find("disorder", witness)
        return None
    if life is None or incarnation > life.incarnation:
        if life is not None and not work.may_begin_again(channel, life):
            witness = f"incarnation {incarnation} follows {life.incarnation}"
            work.verdict.find("unexplained-restart", f"{record}: {witness}, and nothing says why")
        life = work.lives[channel] = ChannelLife(incarnation)
        work.first_lives.setdefault(channel, incarnation)
    return life


def _check_gap(
    work: Judging, record: Record, reading: Reading, life: ChannelLife, ahead: int
) -> None:
    """Labels left out must be announced, and announced ones must not be delivered."""
    channel = reading.channel or b""
    ranges = work.gaps.get((channel, life.incarnation, life.epoch), [])
    if not ahead and not life.begins:
        work.adjacent.add((channel, life.incarnation, life.sequence))
    first = life.expected
    if ahead and (first, first + ahead) not in ranges:
        witness = f"labels {work.settings.labels.at(first)} and on ({ahead}) before it are missing"
        if not covered(first, first + ahead, ranges):
            work.verdict.find("unannounced-gap", f"{record}: {witness}, and no event says so")
    if any(start <= first + ahead < stop for start, stop in ranges):
        work.verdict.find("given-up-delivered", f"{record}: its label was announced as given up")


def _added(record: Record, settings: ChannelSettings) -> tuple[int, int] | None:
    """Its sequence and incarnation; a label that is given is the one, an epoch the other."""
    values = tail(record, settings.header_prefix, settings.added)
    *given, sequence, incarnation = map(number, values or (None, None))
    if min(sequence, incarnation) < 0 or given not in ([], [sequence, incarnation]):
        return None
    return sequence, incarnation
