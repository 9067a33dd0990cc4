"""A service under faults: `python -m tests.chaos.run`, a table of what came of each.

A service that ends is started again, as whoever looks after one would do. At the end nothing may be
missing, doubled or out of order: `sequencer verify` judges the topics, `status` counts.
"""

import argparse
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

from streaming.kafka.embedded import EmbeddedBroker
from tests.chaos.faults import FAULTS, SHORT, chosen
from tests.chaos.traffic import NAMES, Deliveries, Traffic
from tests.service_helpers import Service, status, verify

DELIVERY_SECONDS_MAX = 300
END_SECONDS_MAX = 600
HEAD = "| fault | pipeline | times | outcome | seconds to the next delivery (median, most) |"


class Chaos:
    """One service under some faults; ``outcomes`` and ``seconds`` by fault and pipeline."""

    def __init__(self, broker, folder, names, seed, say=lambda _text: None):
        self.traffic = Traffic(broker, folder, names, seed)
        self.rng, self.say = random.Random(seed), say
        self.outcomes, self.seconds = defaultdict(Counter), defaultdict(list)
        self.service = None

    def run(self, faults):
        """Let them come one after the other; AssertionError where anything is not as it must be."""
        try:
            with self.traffic, Deliveries(self.traffic) as deliveries:
                self._start()
                self._wait(deliveries)
                for number, fault in enumerate(faults):
                    self._through(fault, deliveries)
                    self.say(f"{number + 1} of {len(faults)}: {fault}")
            self._finish()
        finally:
            if self.service is not None:
                self.service.kill()

    def table(self):
        """Lines of Markdown."""
        yield HEAD
        yield "| --- | --- | --- | --- | --- |"
        for (fault, name), seconds in sorted(self.seconds.items()):
            outcome = ", ".join(f"{text}: {n}" for text, n in self.outcomes[fault].items())
            times = f"{statistics.median(seconds):.1f}, {max(seconds):.1f}"
            yield f"| {fault} | {name} | {len(seconds)} | {outcome} | {times} |"

    def _start(self):
        self.service = Service(self.traffic.config)

    def _through(self, fault, deliveries):
        FAULTS[fault](self.service, self.rng)
        ended = time.time()
        for name, at in self._wait(deliveries, fault).items():
            self.seconds[fault, name].append(at - ended)

    def _wait(self, deliveries, fault=None):
        """Wait until every pipeline delivers what is sent from now on; when each did."""
        deliveries.watch()
        deadline = time.monotonic() + DELIVERY_SECONDS_MAX
        outcome = "goes on"
        while missing := deliveries.missing():
            code = self.service.poll()
            if code is not None:
                outcome = f"ends with {code}, is started again"
                self._start()
            assert time.monotonic() < deadline, (fault, missing, outcome, self.service.said())
            time.sleep(0.05)
        if fault is not None:
            self.outcomes[fault][outcome] += 1
        return dict(deliveries.first)

    def _finish(self):
        """All that was sent is worked through and in order."""
        config, sent = self.traffic.config, self.traffic.sent()
        self.service.until(lambda: self._is_done(config, sent), END_SECONDS_MAX)
        assert self.service.stop() == 0, self.service.said()
        code, said = verify(config)
        assert code == 0, said

    def _is_done(self, config, sent):
        figures = status(config)
        done = {name: figures[name]["in"] for name in sent}
        return done == sent and not any(figures[name]["held"] for name in sent)


def main():
    """Run it as the words of the command line say; exit status 1 where a guarantee is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--times", type=int, default=1, help="of each fault")
    parser.add_argument("--fault", nargs="+", choices=FAULTS, default=SHORT)
    parser.add_argument("--pipeline", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--bootstrap", help="a broker; without it one is started")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # nothing is left behind
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        broker = SimpleNamespace(bootstrap=given.bootstrap)
        if not given.bootstrap:
            broker = stack.enter_context(EmbeddedBroker())
        chaos = Chaos(
            broker, folder, given.pipeline, given.seed, lambda t: print(t, file=sys.stderr)
        )
        try:
            chaos.run(chosen(given.fault, given.times, given.seed))
        finally:
            print("\n".join(chaos.table()))


if __name__ == "__main__":
    main()
