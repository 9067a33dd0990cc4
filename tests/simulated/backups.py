"""Backups in histories of seeds from FROM on: put back, with repeats accepted, and judged all the same.

A backup is of one moment, or made as `streaming.service.backup` makes it: from what was there after
the last batch that was done, the decisions last, while other batches run. From TWO_FROM on there
are two, made one after the other and put back in any order.
"""

from __future__ import annotations

import random
from functools import partial

from tests.simulated import pipelines
from tests.simulated.copies import back_up
from tests.simulated.faults import FAULTS
from tests.simulated.kinds import KINDS
from tests.simulated.outages import OUTAGES, UNNOTICED
from tests.simulated.spark import REPEATS
from tests.simulated.storage import TORN
from tests.simulated.topic_outages import compacted, made_again, retention, unclean_election
from tests.simulated.zombies import ZOMBIES

FROM, TWO_FROM, UNTIL = 9_000_000, 9_250_000, 9_500_000
DRAWN = (
    *pipelines.PIPELINES,
    *("split", "joined", "joined network", "owned", "owned clock", "owned counter"),
)
OF_INPUT = (*UNNOTICED, retention, compacted, unclean_election, made_again)
"""Faults after which nobody can tell what has to be delivered."""
SPANS = (1.5, 3.0, 3.0)
ORDERS = ((0, 1), (0, 1), (1, 0), (0, 1, 0), (1, 0, 1))
"""In which two backups are put back."""
PAUSES = (0.1, 0.2, 0.5)
"""Between two backups, as parts of a history's span."""
WAITING_SECONDS = 0.05
WAITS_MAX = 100
STEP_SECONDS = (0.0, 0.01, 0.1)
"""On the average, from one step of the command to the next."""
TRIES_MAX = 100


def drawn(seed, aim):
    """What decides of a seed's backups; None where it has none."""
    is_two = TWO_FROM <= seed < UNTIL or "two backups" in aim.faults
    if not (is_two or FROM <= seed < UNTIL or "a backup" in aim.faults):
        return None
    made = random.Random(f"backups {seed}")
    made.is_two = is_two
    return made


def faults():
    """Which faults may come besides."""
    every = (*FAULTS, *OUTAGES, *ZOMBIES, *KINDS)
    return tuple(each for each in every if each not in OF_INPUT)


def put_back(history, rng):
    """A backup is made, and put back later, once or twice; whoever does so accepts repeats."""
    is_two = history.backed_up.is_two
    order = rng.choice(ORDERS if is_two else [(0,), (0,), (0, 0)])
    later_s = [rng.random() * rng.choice([0.2, 1, 1]) * history.span for _ in order]
    is_command = rng.random() < 0.6
    pause_s = rng.random() * rng.choice(PAUSES) * history.span if is_two else 0.0
    backups = []

    def act(tries=WAITS_MAX):
        storage = history.storage
        done = storage.done()
        is_torn = TORN in [*storage.offsets.values(), *storage.commits.values()]
        if done < 0 or is_torn or not storage.is_begun:
            if tries and not history.healed:
                history.world.at(WAITING_SECONDS, partial(act, tries - 1))
        elif is_command:
            Copying(history, rng, made)
        else:
            made(back_up(storage))

    def made(restore):
        backups.append((restore, history.written.valid()))
        if len(backups) <= max(order):
            history.heal_after(pause_s)
            history.world.at(pause_s, act)
            return
        history.heal_after(sum(later_s))
        moment = 0.0
        for which, seconds in zip(order, later_s, strict=True):
            moment += seconds
            history.world.at(moment, partial(back, *backups[which]))

    def back(restore, valid):
        if history.service.ended is not None:
            return
        history.world.note("the backup is put back")
        for process in history.service.processes():
            process.kill()
        restore()
        history.written.went_back(valid)
        history.repeats = True
        history.service.accepts |= {REPEATS}
        history.went_back()

    some = "two backups are" if is_two else "a backup is"
    return f"{some} put back, repeats are accepted", act


class Copying:
    """The command's steps, some time apart; ``made`` gets what puts the copy back."""

    def __init__(self, history, rng, made):
        self.history, self.storage, self.made = history, history.storage, made
        self.mean_s = rng.choice(STEP_SECONDS)
        self.rng, self.tries = rng, TRIES_MAX
        self._begin()

    def _later(self, act):
        pause = self.rng.expovariate(1 / self.mean_s) if self.mean_s else 0.0
        self.history.world.at(pause, act)

    def _begin(self):
        self.batch = self.storage.done()
        self.noted, self.totals = self.storage.noted, dict(self.storage.totals)
        self._later(self._link)

    def _link(self):
        """Take what does not change, but for what is of later batches."""
        storage, batch = self.storage, self.batch
        self.copies = {
            "named": dict(storage.named),
            "offsets": {n: each for n, each in storage.offsets.items() if n <= batch + 1},
            "commits": {n: each for n, each in storage.commits.items() if n <= batch},
            "state": {at: each for at, each in storage.state.items() if at[1] <= batch + 1},
            "totals": self.totals,
            "purged": dict(storage.purged),
        }
        self.files = storage.disk.files()
        self._later(self._end)

    def _end(self):
        self.kept = self.storage.kept
        if self.storage.planned() > self.batch + 1:
            self.tries -= 1
            if self.tries and not self.history.healed:
                self._later(self._begin)
            return
        self.history.world.note(f"a backup is made, as it was after batch {self.batch}")
        self.made(self._restore)

    def _restore(self):
        for name, copy in self.copies.items():
            setattr(self.storage, name, dict(copy))
        self.storage.kept, self.storage.noted = self.kept, self.noted
        self.storage.written.clear()
        self.storage.disk.put_back(self.files)
