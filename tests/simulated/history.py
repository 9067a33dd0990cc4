"""One run of a service: its users, its faults, its end; all of it from the seed."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

from tests.simulated.faults import FAULTS
from tests.simulated.kafka import Kafka
from tests.simulated.network import Network
from tests.simulated.pipelines import PIPELINES, TOPICS
from tests.simulated.spark import Service
from tests.simulated.world import World, simulated_time

FAULTS_SECONDS = 6.0
"""Faults begin within this time."""
HEALED_SECONDS = 12.0
"""Then all of them end: brokers are up, the network is whole."""
LIMIT_SECONDS = 400.0
"""By then everything must have been read and written."""


class History:
    """One run; ``folder`` is the checkpoint's; ``keep`` are the numbers of the faults that come, by default all of them."""

    def __init__(self, seed, folder, *, keep=None, pipeline=None):
        self.seed, self.world = seed, World(seed)
        rng = self.world.rng
        self.kafka = Kafka(self.world, TOPICS)
        self.discipline = rng.choice(sorted(PIPELINES))
        self.discipline = pipeline or self.discipline
        self.pipeline = PIPELINES[self.discipline](rng, folder)
        part = random.Random(seed).choice([1, 3, 20, 10**6])
        self.pipeline.plan = replace(self.pipeline.plan, part_records_max=part)
        self.service = Service(self.world, self.kafka, self.pipeline)
        transactional = rng.random() < 0.3
        for moment, topic, partition, records in self.pipeline.sends:
            log = self.kafka.logs[topic, partition]
            if transactional:
                self.world.at(moment, partial(log.fill, records, (1, False)))
                self.world.at(moment, partial(log.fill, records, (2, True)))
            else:
                self.world.at(moment, partial(log.fill, records))
        count = rng.choice([0, 1, 2, 3, 5])
        faults = [
            (rng.random() * FAULTS_SECONDS, rng.choice(FAULTS)(self, rng)) for _ in range(count)
        ]
        self.faults = [each for n, each in enumerate(faults) if keep is None or n in keep]
        self.healed = self.finished = False

    def run(self):
        """Run it to its end; whether everything was read and written."""
        Network.kafka = self.kafka
        self.service.start()
        for moment, (text, act) in self.faults:
            self.world.at(moment, partial(self._happen, text, act))
        self.world.at(HEALED_SECONDS, self._heal)
        try:
            with simulated_time(self.world):
                self.world.run(self._over)
                self.finished = self._done()
        finally:
            self.world.end()
        return self.finished

    def _over(self):
        return self._done() or self.service.ended is not None or self.world.now > LIMIT_SECONDS

    def _happen(self, text, act):
        self.world.note(text)
        act()

    def _heal(self):
        self.healed = True
        self.kafka.faults.clear()
        for broker in self.kafka.brokers:
            broker.up = True

    def _done(self):
        commits = self.service.storage.commits
        if not self.healed or not commits:
            return False
        if any(log.open for log in self.kafka.logs.values()):
            return False  # a transaction's markers are still on their way
        end, _ = self.service.storage.offsets[max(commits)]
        return all(
            end.get(topic, {}).get(str(number), 0) >= log.end
            for (topic, number), log in self.kafka.logs.items()
            if topic in self.pipeline.plan.reads
        )
