"""One run of a service: its users, its faults, its end; all of it from the seed."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from functools import partial

from streaming.source.positions import Log as Was
from streaming.source.positions import begin_of, logs_in, offsets_in
from streaming.wire.topology import id_text
from tests.simulated import backups, chains, kinds, long_lives, moves, uses
from tests.simulated.faults import FAULTS
from tests.simulated.kafka import NOTHING_KNOWN, Kafka
from tests.simulated.lost import Written
from tests.simulated.marking import PROGRESS
from tests.simulated.network import Network
from tests.simulated.outages import OUTAGES, UNNOTICED
from tests.simulated.pipelines import (
    MORE_TOPICS,
    OTHERS,
    PIPELINES,
    TOPICS,
    deliver_at_least_once,
)
from tests.simulated.planting import ANY
from tests.simulated.refusing import REFUSALS, refuse_some
from tests.simulated.spark import Service
from tests.simulated.storage import TORN, Storage, simulated_disk
from tests.simulated.world import World, simulated_time
from tests.simulated.zombies import ZOMBIES

SPANS = (1.5, 1.5, 3.0, 6.0)
"""Within so many seconds, one of them in each history, users send and faults begin."""
SHORT_SPANS, SHORT_FROM = (0.5, 0.5, 0.75, 1.5), 1_000_000
"""The same for seeds from this one on: twice the histories in the same time."""
REFUSING_SPANS, REFUSING_FROM = (0.75, 1.5, 3.0), 2_000_000
"""In histories from this seed on Kafka refuses some records, and more faults come."""
REPEATING_FROM = kinds.UNTIL
"""From this one on they deliver at least once: nothing is refused, and only such faults come as show
without progress."""
HEALED_SECONDS = 4.0
"""After that, all faults end: brokers are up, the network is whole."""
LIMIT_SECONDS = 300.0
"""Then everything must be read and written within this time."""
STUCK_SECONDS, STUCK_FAILURES = 40.0, 40
"""After so long, and so many failures that are alike, it is over."""
WAITING_MS = 60_000
"""Timers that are due within this time are waited for; others may be those of channels that retire."""
PARTS = (1, 3, 20, 10**6, 10**6)
DRAWS_MAX = 100_000
ALL_FAULTS = FAULTS + OUTAGES + ZOMBIES


def refuses(seed, aim):
    """Whether Kafka refuses some records in a seed's history."""
    is_late = seed >= kinds.BESIDE_REFUSALS_FROM
    if backups.drawn(seed, aim) or chains.drawn(seed, aim):
        return aim.refuses
    if seed >= uses.FROM:
        return uses.drawn(seed, aim).refuses or aim.refuses
    return REFUSING_FROM <= seed < kinds.FROM or is_late or aim.refuses


class History:
    """One run; ``folder`` is the checkpoint's; ``keep`` are the numbers of the faults that come.

    By default all of them. ``aim``: what it must have, whatever the seed says. ``may_end``: what the
    service may end with, by what was done to it; ``must_end``: what it has to end with.
    ``repeats``: somebody accepted them. ``forgotten``: which plans were lost. ``copies``: how many
    drivers worked at the end. ``copy``: a service on a copy of the checkpoint. ``other``: the one
    whose output this one reads, or that reads this one's (`chains`).
    """

    copy = other = None

    def __init__(self, seed, folder, *, keep=None, aim=ANY):
        self.seed, self.root, self.world = seed, folder, World(seed)
        rng, setting = self.world.rng, random.Random(seed)
        self.backed_up, self.chained = backups.drawn(seed, aim), chains.drawn(seed, aim)
        is_new = bool(self.backed_up or self.chained)
        drawn, repeats_deliveries = self._say_what(aim, setting, is_new=is_new)
        aimed = aim.pipeline or drawn or (kinds.CHANGING if self.kinds.rules else None)
        if aimed == "split":  # an output for each subscriber has no marks
            self.kinds = replace(self.kinds, marks=False)
        more = {**MORE_TOPICS, **kinds.TOPICS, **uses.TOPICS}.get(aimed, {})
        more = {**more, PROGRESS: 1} if self.kinds.marks else more
        more = {**more, **chains.FIRST} if self.chained else more
        self.kafka = Kafka(self.world, {**TOPICS, **more})
        self.discipline = rng.choice(sorted(PIPELINES)) if drawn is None else drawn
        self.discipline = aimed or self.discipline
        lockable, synced = setting.random() < 0.7, setting.random() < 0.85
        if aim.folder is not None:
            lockable, synced = aim.folder, True
        synced = synced or repeats_deliveries
        self.storage = Storage(self.world, folder, lockable=lockable, synced=synced)
        self.pipeline = {**PIPELINES, **OTHERS, **kinds.PIPELINES, **uses.PIPELINES}[
            self.discipline
        ](rng, folder if lockable else "", self.span)
        if self.kinds.forgotten_ms is not None and not uses.takes_long(self):
            kinds.forget(self.pipeline, self.kinds.forgotten_ms)
        self._say_how(folder, aim, setting, synced=synced)
        has_lives = not is_new and (self.uses is None or self.uses.lives)
        lives = long_lives.drawn(seed) if has_lives else None
        long_lives.vary(self.pipeline, lives)
        if repeats_deliveries:
            deliver_at_least_once(self.pipeline)
        if self.refuses:
            refuse_some(self.pipeline, self.kafka, setting)
        if repeats_deliveries and self.refuses:
            uses.judge_deliveries(self.pipeline)
        self.service = Service(self.world, self.kafka, self.pipeline, self.storage)
        self.service.tries = self.kinds.tries
        if self.chained:
            chains.prepare(self, self.chained, folder)
        self._let_send(transactional=rng.random() < 0.3)
        self.lives = long_lives.prepare(self, lives)
        if self.uses:
            self.lives = moves.prepare(self, self.lives)
        self.written = Written(self) if self.backed_up else None
        faults = self._drawn(aim, rng, setting)
        self.faults = [each for n, each in enumerate(faults) if keep is None or n in keep]
        self.healed = self.finished = False
        self.heal_at = self.span + HEALED_SECONDS
        self.may_end, self.must_end = set(), ""
        self.copies, self.repeats, self.forgotten = 0, False, set()

    def _say_what(self, aim, setting, *, is_new):
        """Draw what the history has: its pipeline's name (None: any), whether deliveries repeat."""
        seed = self.seed
        self.refuses = refuses(seed, aim)
        self.uses = None if is_new else uses.drawn(seed, aim)
        repeats_deliveries = seed >= REPEATING_FROM and not self.refuses and not is_new
        if self.uses:
            repeats_deliveries = self.uses.repeats and not aim.folder
        spans = REFUSING_SPANS if self.refuses else SHORT_SPANS if seed >= SHORT_FROM else SPANS
        self.span = setting.choice(backups.SPANS if is_new else spans)
        self.kinds = kinds.drawn(seed, "" if self.chained else aim.kind)
        if is_new:
            self.kinds = replace(self.kinds, marks=False, rules=False)
        drawn = setting.choice(sorted(PIPELINES | OTHERS)) if self.refuses else None
        drawn = self.uses.pipeline if self.uses else drawn
        drawn = self.backed_up.choice(backups.DRAWN) if self.backed_up else drawn
        return self.chained.choice(chains.DRAWN) if self.chained else drawn, repeats_deliveries

    def _say_how(self, folder, aim, setting, *, synced):
        """Have plans and checkpoint be as the seed, or what is aimed at, says."""
        part = aim.part or setting.choice(PARTS)
        new = {"part_records_max": part, "sync": synced}
        new |= {"progress": PROGRESS} if self.kinds.marks else {}
        new |= {"folder": folder} if aim.folder and self.discipline == "channel" else {}
        self.pipeline.plan = replace(self.pipeline.plan, **new)
        self.pipeline.others = [replace(each, **new) for each in self.pipeline.others]
        self.storage.retained = self.kinds.retained
        self.storage.takes_decisions = self.kinds.decisions

    def _let_send(self, *, transactional):
        """Have users send what they send."""
        sends = [*self.pipeline.sends, *(self.other.pipeline.sends if self.other else ())]
        for moment, topic, partition, records in sends:
            for transaction in ((1, False), (2, True)) if transactional else (None,):
                send = partial(self._send, topic, partition, records, transaction)
                self.world.at(moment, send)

    def _drawn(self, aim, rng, setting):
        """The faults that come, with their moments."""
        count = rng.choice([1, 2, 3, 5, 8] if self.seed >= REFUSING_FROM else [0, 1, 2, 3, 5])
        some = FAULTS if setting.random() < 0.5 else ALL_FAULTS
        is_repeating = self.pipeline.plan.delivery == "at-least-once"
        if is_repeating:
            some = tuple(each for each in some if each not in UNNOTICED)
        some += REFUSALS if self.refuses and not is_repeating else ()
        some += kinds.KINDS if self.kinds != kinds.Kinds() else ()
        some = backups.faults() if self.written or self.other else some
        some = moves.fitting(long_lives.fitting(some, self.lives), self.lives) + self.lives * 2
        faults = [(rng.random() * self.span, rng.choice(some)(self, rng)) for _ in range(count)]
        faults += moves.surely(self, rng)
        faults += (
            [(rng.random() * self.span / 2, backups.put_back(self, rng))] if self.written else []
        )
        if not any(re.search(aim.faults, text) for _, (text, _) in faults or [(0, ("", None))]):
            faults.append(self._aimed(aim.faults, rng))
        return faults

    def _aimed(self, wanted, rng):
        """One of all kinds of faults, whose text matches a regular expression."""
        every = ALL_FAULTS + (kinds.KINDS if self.kinds != kinds.Kinds() else ()) + self.lives
        for _ in range(DRAWS_MAX):
            text, act = rng.choice(every)(self, rng)
            if re.search(wanted, text):
                return rng.random() * self.span, (text, act)
        raise AssertionError(f"no fault is like {wanted}")

    def run(self):
        """Run it to its end; whether everything was read and written."""
        Network.kafka = self.kafka
        self.service.start()
        if self.other:
            self.world.at(self.other.later_s, self.other.service.start)
        for moment, (text, act) in self.faults:
            self.world.at(moment, partial(self._happen, text, act))
        self.world.at(self.heal_at, self._heal)
        try:
            beside = moves.beside(self)
            with simulated_time(self.world), simulated_disk(self.storage), beside:
                self.world.run(self._over)
                self.finished = self._done()
                self.copies = len(self.service.working())
        finally:
            self.world.end()
        return self.finished

    def heal_after(self, seconds):
        """Have faults end no earlier than in so many seconds."""
        self.heal_at = max(self.heal_at, self.world.now + seconds + 1)

    def lose(self, kind, *, surely):
        """Something is gone: the service may end with this error, or has to."""
        self.may_end.add(kind)
        if surely and not self.service.accepts_lost_input():
            self.must_end = kind

    def went_back(self):
        """The checkpoint is one of before: what it reads next may be gone, what is lost not read."""
        self.must_end = ""
        entries = [*self.storage.offsets.values(), *self.storage.purged.values()]
        planned = [entry[0] for entry in entries if entry != TORN]
        plans = enumerate(self.storage.ever)
        self.forgotten = {number for number, (_, end) in plans if end not in planned}
        for (topic, partition), log in self.kafka.logs.items():
            begin, planned = self.position(topic, partition)
            if topic not in self.pipeline.plan.reads or planned is None:
                continue
            _, last = self.storage.left()
            was = logs_in(self._end(last)).get(topic, Was())
            is_other = was.id not in ("", id_text(self.kafka.ids[topic]))
            is_cut = log.epoch_end(was.epochs.get(str(partition), log.leader_epoch)) < planned
            if log.first > begin or is_other or is_cut:
                is_gone = log.first > self.readable((topic, partition), planned)
                self.lose("InputLost", surely=is_gone or is_other or is_cut)

    def readable(self, place, planned):
        """How far it is read, or may be from a broker that was cut off; None where nothing is planned."""
        if planned is None:
            return None
        views = [each.cut_off[place] for each in self.kafka.brokers if place in each.cut_off]
        return max([planned, *(each.stable for each in views)])

    def position(self, topic, partition):
        """Where reading a partition goes on after what is done, after what is planned (or None)."""
        ends = [self._end(batch) for batch in self.storage.left()]
        begin, end = (
            None if each is None else offsets_in(each).get(topic, {}).get(str(partition), 0)
            for each in ends
        )
        return begin or 0, end

    def _end(self, batch):
        """Where a batch ends; None for none."""
        entry = self.storage.offsets.get(batch)
        return None if entry is None else entry[0]

    def read(self):
        """What batches have read, by topic and partition: first offset, stop, leader epoch.

        A plan that was lost with its checkpoint has read nothing where the service goes on: had it
        written something, the service would have ended.
        """
        found = {}
        for start, end in self._plans():
            begin = begin_of(start, end)
            logs = logs_in(end)
            for topic, of in offsets_in(end).items():
                for at, stop in of.items():
                    # A first batch that has nothing to read does not say where it begins; where it
                    # does, a partition that is new since is read from its own beginning.
                    is_said = bool(start or begin.get(topic))
                    first = begin.get(topic, {}).get(at, 0 if is_said else stop)
                    epoch = logs.get(topic, Was()).epochs.get(at, -1)
                    found.setdefault((topic, int(at)), []).append((first, stop, epoch))
        return found

    def read_anew(self):
        """Topics of which no plan that counts has read what they were before they were made again."""
        ids = {topic: set() for topic in self.kafka.topics}
        for _, end in self._plans():
            for topic, log in logs_in(end).items():
                ids[topic].add(log.id)
        return [topic for topic, some in ids.items() if some == {id_text(self.kafka.ids[topic])}]

    def _plans(self):
        """Where batches begin and end."""
        lost = self.forgotten if self.finished else set()
        return [each for number, each in enumerate(self.storage.ever) if number not in lost]

    def _send(self, topic, partition, records, transaction):
        self.kafka.logs[topic, partition].fill(records, transaction)

    def _over(self):
        if self.service.ended is not None or self._done():
            return True
        if self.other and self.other.service.ended is not None:
            return True
        after = self.world.now - self.heal_at
        stuck = after > STUCK_SECONDS and self.service.driver.alike > STUCK_FAILURES
        return self.healed and (stuck or after > LIMIT_SECONDS)

    def _happen(self, text, act):
        self.world.note(text)
        act()

    def _heal(self):
        if self.world.now < self.heal_at:
            self.world.at(self.heal_at - self.world.now, self._heal)
            return
        self.healed, self.world.drains = True, self.seed >= SHORT_FROM
        self.kafka.faults.clear()
        self.kafka.denied.clear()
        self.kafka.narrowed.clear()
        self.storage.broken_until = 0.0
        for broker in self.kafka.brokers:
            broker.up, broker.cut_off, broker.knew = True, {}, NOTHING_KNOWN

    def _done(self):
        storage = self.storage
        if not self.healed or storage.done() < 0 or storage.batch_in_doubt() >= 0:
            return False
        if self.must_end and self.world.now < self.heal_at + LIMIT_SECONDS:
            return False
        if len(self.service.working()) > 1 and self.world.now < self.heal_at + LIMIT_SECONDS / 2:
            return False  # the one that was overtaken hears of it with its next batch
        if any(log.open for log in self.kafka.logs.values()):
            return False  # a transaction's markers are still on their way
        if storage.offsets[storage.done()] == TORN:
            return False
        if (self.pipeline.ends or self.pipeline.settles) and storage.waits(WAITING_MS):
            return False
        if self.other and not chains.is_through(self):
            return False
        end, _ = storage.offsets[storage.done()]
        return all(
            end.get(topic, {}).get(str(number), 0) == log.end  # beyond it input is lost
            for (topic, number), log in self.kafka.logs.items()
            if topic in self.pipeline.plan.reads
        )
