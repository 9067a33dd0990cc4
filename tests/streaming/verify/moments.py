"""The topics of a service that runs, as a reader meets them at some moment.

A stage of real shards writes them; what it writes gets its place in one line of time, shard by
shard and batch by batch. Each topic is read at a moment of its own, one after the other.
"""

import random

from streaming.verify.accounts import Material
from tests.streaming.verify.worlds import Topics

OWN = ("in", "commands", "rejects", "events", "transit")


class Timed(Topics):
    """Topics that know when each record was written: how many there were then."""

    def __init__(self):
        super().__init__()
        self.written = {}

    def put(self, topic, *fields):
        record = super().put(topic, *fields)
        self.written[record.place] = len(self.written) + 1
        return record

    def until(self, name, moment):
        return [record for record in self.all(name) if self.written[record.place] <= moment]


class Moments:
    """A stage that works through its topics: the moments between shards, and between batches."""

    def __init__(self, stage, seed):
        self.stage, self.topics = stage, stage.topics
        self.rng = random.Random(seed)
        self.steps, self.batches, self.idle = [], [], [(0, {})]
        take_step = stage.step

        def step(key, packs):
            take_step(key, packs)
            self.steps.append(self.now)

        stage.step = step
        while stage.left():
            stage.batch()
            self.batches.append(self.now)
            totals = stage.totals()
            if totals.held == totals.transit == 0:
                self.idle.append((self.now, dict(stage.read)))

    @property
    def now(self):
        return len(self.topics.written)

    def look(self, *, settled):
        """What a reader gets, and the ends of what had its time; ``settled``: see `Later`.

        In parts a batch shows its records one by one, else those of a shard at once.
        """
        rng, in_parts = self.rng, self.rng.random() < 0.5
        moments = [*range(self.steps[0], self.now + 1)] if in_parts else self.steps
        of_outputs = rng.choice(moments)
        behind = [m for m in (self.batches if settled else moments) if m >= of_outputs]
        of_rejects = rng.choice(behind[:5])
        of_events = rng.choice([m for m in behind if m >= of_rejects][:5])
        outputs = sorted({topic for topic, _ in self.topics.records} - {*OWN})
        material = Material(
            [each for name in outputs for each in self.topics.until(name, of_outputs)],
            self.topics.until("rejects", of_rejects),
            self.topics.until("events", of_events),
            self.topics.all("commands"),
            self.topics.all("in"),
        )
        read = [read for moment, read in self.idle if moment <= of_outputs][-1]
        due = {
            place: self.topics.records[place][n - 1].offset + 1 for place, n in read.items() if n
        }
        return material, due
