"""Where faults happen: brokers, proxies before them, users, and one service that is looked after."""

import random
import sys
import time
from collections import defaultdict
from contextlib import ExitStack

from tests.chaos.traffic import Deliveries, Traffic
from tests.kafka_helpers import read_all
from tests.proxies import Proxies
from tests.service_helpers import Service, status, toml, verify

DELIVERY_SECONDS_MAX = 300
END_SECONDS_MAX = 600
CLIENT = "chaos"
"""What the service calls itself to brokers."""
LAST_WORDS = 1_500
ENDINGS_MAX = 5
"""So often a fault may end the service: more often, and nobody would go on starting it."""


class Place:
    """A service of the pipelines ``names``; a context manager, in which it runs.

    ``kafka``: what has an address, `bootstrap`, and perhaps one that asks for names, `guarded`. A service that ends is started again, as whoever looks
    after one would do. ``endings`` are its exit statuses since the last `forget`, ``remarks`` what
    else a fault saw. ``spoiled``: pipelines whose input is not what it was, so that nobody can tell what
    had to come of it; ``beheaded``: those of them whose outputs' beginnings are gone;
    ``repeated``: repeats were accepted.
    """

    def __init__(self, kafka, folder, names, seed):
        self.kafka, self.rng = kafka, random.Random(seed)
        self.endings, self.remarks, self.repeated = [], [], False
        self.spoiled, self.beheaded = set(), set()
        self._stack = ExitStack()
        self.proxies = self._stack.enter_context(
            Proxies(getattr(kafka, "guarded", kafka.bootstrap))
        )
        self.traffic = Traffic(kafka, folder, names, seed, self.proxies.bootstrap)
        self.deliveries = Deliveries(self.traffic)
        self.config = self.traffic.config
        known = toml({"client.id": CLIENT, **getattr(kafka, "words", {})})
        text = self.config.read_text().replace("[kafka]\n", f"[kafka]\nproperties = {known}\n")
        self.config.write_text(text)
        self.service = None

    def __enter__(self):
        with self._stack:
            self._stack.callback(self._end)
            self.start()
            self._stack.enter_context(self.traffic)
            self._stack.enter_context(self.deliveries)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *error):
        self._stack.__exit__(*error)

    def _end(self):
        if self.service is not None:
            self.service.kill()

    def start(self, *words, **how):
        """Start the service; ``words`` and ``how``: as for `Service`."""
        self.service = Service(self.config, *words, **how)

    def forget(self):
        """Begin a fault."""
        self.endings, self.remarks = [], []

    def tend(self):
        """Start the service again where it has ended."""
        ended = self.service.poll()
        if ended is None:
            return
        self.endings.append(ended)
        print(f"it ended with {ended}: ...{self.service.said()[-LAST_WORDS:]}", file=sys.stderr)
        assert len(self.endings) <= ENDINGS_MAX, self.service.said()
        self.start()

    def wait(self, seconds):
        """Look after the service for so long."""
        self.until(lambda: False, seconds)

    def until(self, condition, seconds=DELIVERY_SECONDS_MAX):
        """Look after it until there is something; None where that takes longer than ``seconds``."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            if time.monotonic() >= deadline:
                return None
            self.tend()
            time.sleep(0.05)
        return found

    def until_ended_or(self, condition, seconds=DELIVERY_SECONDS_MAX):
        """Wait for the service to end, or for something; the exit status, None where it runs."""
        deadline = time.monotonic() + seconds
        while (ended := self.service.poll()) is None and not condition():
            assert time.monotonic() < deadline, self.service.said()
            time.sleep(0.05)
        return ended

    def next_deliveries(self, but=()):
        """Wait until every pipeline delivers what is sent from now on; when each first did.

        ``but``: those that need not.
        """
        self.deliveries.watch()
        all_came = self.until(lambda: not self.deliveries.missing().difference(but))
        assert all_came, (self.deliveries.missing(), self.endings, self.service.said())
        return self.deliveries.first()

    def judge(self):
        """After the last fault: AssertionError where anything is missing, doubled or out of order."""
        self.traffic.stop()
        sent = self.traffic.sent()
        whole = [name for name in sent if name not in self.spoiled]
        assert self.until(lambda: self._is_done(sent, whole), END_SECONDS_MAX), self.service.said()
        assert self.service.stop() == 0, self.service.said()
        if whole:
            words = [word for name in whole for word in ("--pipeline", name)]
            code, said = verify(self.config, *words)
            assert code == 0, said
        for name in self.spoiled:
            self._judge_spoiled(name)

    def _is_done(self, sent, whole):
        figures = status(self.config)
        return all(
            figures[name]["in"] == sent[name] and not figures[name]["held"] for name in whole
        )

    def _judge_spoiled(self, name):
        """Every number of a key names one delivery, and none is left out."""
        topic, found = self.traffic.pipelines[name]["output"], defaultdict(list)
        for record in read_all(self.kafka.bootstrap, topic):
            numbers = int(record.header("incarnation")), int(record.header("sequence"))
            found[record.key, numbers[0]].append(numbers[1])
        for key, numbers in found.items():
            once = list(dict.fromkeys(numbers)) if self.repeated else numbers
            first = once[0] if name in self.beheaded else 0
            assert once == list(range(first, first + len(once))), (topic, key, numbers)
