"""Behind a backlog, and after a kill -9, for trees of this project in turns: a table.

A service runs as its users run it: the README's configuration, nothing set. Each one has had a few
records and was stopped, so that its checkpoint is old; then the backlog is written, and each is
started in turn: until readers with `read_committed` have the first delivery, and all; the rate from
a quarter to nine tenths; the most memory that its processes take together (PSS). Then all its
processes are killed (-9) at rest, a few records come, and it is started again: until the next
delivery.
Ratios of one run only.

    python bench/backlog.py
    python bench/backlog.py --trees ../old . --turns 3 --messages 4000000 --channels 10000
"""

import argparse
import itertools
import os
import signal
import statistics
import subprocess
import tempfile
import time
from itertools import product
from pathlib import Path

from channels import disordered
from compare import Reach, end, figures
from harness import ROLES, create, produce, remove, say, warm_broker
from latency import written
from process_tree import watched

CHANNELS, MESSAGES = 10_000, 4_000_000
BEGUN = 1_000
"""Records that each service has had before the backlog, and gets before it is killed."""
REST_SECONDS = 5
LIMIT_SECONDS = 300
COLUMNS = {
    "first_output_s": "first delivery, s",
    "all_s": "all, s",
    "records_per_second": "records/s",
    "memory_mib": "peak memory, MiB",
    "jvm_mib": "of it the JVM's",
    "cpu_us": "CPU, µs a record",
    "killed_s": "kill -9 to the next, s",
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trees", nargs="+", type=Path, default=[Path(__file__).parent.parent])
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--channels", type=int, default=CHANNELS)
    parser.add_argument("--size", type=int, default=100, help="bytes of a value")
    parser.add_argument("--no-kill", action="store_true")
    parser.add_argument("--service", default="", help="more lines for the table [service]")
    given = parser.parse_args()
    with warm_broker() as broker, tempfile.TemporaryDirectory(prefix="bench-") as folder:
        create(broker.bootstrap, "input")
        produce(broker.bootstrap, "input", begun(0))
        services = [
            Service(broker, tree.absolute(), f"{turn}-{number}", folder, given.service)
            for turn, (number, tree) in product(range(given.turns), enumerate(given.trees))
        ]
        for service in services:
            service.reach(BEGUN, REST_SECONDS)
        count = given.messages // given.channels * given.channels
        say(f"writing {count:,} messages")
        produce(broker.bootstrap, "input", disordered(count, given.channels), given.size)
        for service in services:
            say(f"{service.tree}: {service.measured(BEGUN + count)}")
        labels = itertools.count(1)
        for service in services:
            service.found["killed_s"] = 0.0 if given.no_kill else service.killed(labels)
            service.close()
    print("| tree | " + " | ".join(COLUMNS.values()) + " |\n|" + "---|" * (len(COLUMNS) + 1))
    for tree in dict.fromkeys(service.tree for service in services):
        own = [service.found for service in services if service.tree == tree]
        cells = [shown([each[name] for each in own]) for name in COLUMNS]
        print(f"| {tree} | {' | '.join(cells)} |")


class Service:
    """One service with a checkpoint of its own; all read the topic `input`. ``found``: figures."""

    def __init__(self, broker, tree, name, folder, more):
        self.broker, self.tree, self.name = broker, tree, name
        self.topics = [f"{name}.out{role}" for role in ROLES]
        create(broker.bootstrap, *self.topics)
        self.config = Path(folder, f"{name}.toml")
        text = written("channel", name, f"{folder}/{name}", broker.bootstrap, more)
        self.config.write_text(text.replace(f'"{name}.in"', '"input"'))
        self.found = {}

    def start(self):
        command = [str(self.tree / ".venv/bin/python"), "-m", "streaming.cli", "run"]
        return subprocess.Popen(
            [*command, str(self.config)],
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd=self.tree,
        )

    def reach(self, count, rest=0):
        """Run until so many records are readable; what was seen meanwhile (`Reach.turns`).

        ``rest``: seconds more, so that no batch is planned when it is stopped.
        """
        with Reach(self.broker, self.topics[0]) as reach:
            began = time.time() * 1000
            process = self.start()
            try:
                with watched(process.pid, self.broker.pid) as watch:
                    wait_for(reach, count, process)
                    time.sleep(rest)
            finally:
                end(process)
        return reach.turns, began, watch

    def measured(self, count):
        turns, began, watch = self.reach(count)
        before = turns[0][1]
        turns = [(at, far - before) for at, far in turns if far >= before]
        self.found = figures(turns, count - BEGUN, began, watch)
        self.found["jvm_mib"] = watch.memory["jvm"]
        return self.found

    def killed(self, labels):
        """Seconds from a kill -9 of the service at rest, with some records there, to a delivery."""
        with Reach(self.broker, self.topics[0]) as reach:
            process = self.start()
            try:
                wait_for(reach, 1, process)
                produce(self.broker.bootstrap, "input", begun(next(labels)))
                wait_for(reach, reach.turns[-1][1] + 1, process)
                time.sleep(REST_SECONDS)
                os.killpg(process.pid, signal.SIGKILL)
                began, before = time.monotonic(), reach.turns[-1][1]
                process.wait()
                produce(self.broker.bootstrap, "input", begun(next(labels)))
                process = self.start()
                wait_for(reach, before + 1, process)
                return time.monotonic() - began
            finally:
                end(process)

    def close(self):
        remove(self.broker.bootstrap, *self.topics)


def wait_for(reach, count, process):
    """Wait until so many offsets are readable."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while not reach.turns or reach.turns[-1][1] < count:
        if time.monotonic() > deadline or process.poll() is not None:
            raise SystemExit(f"{count:,} are not readable; {reach.turns[-1:]}")
        time.sleep(0.05)


def begun(turn):
    """A few records of channels that the backlog has not."""
    return ((b"begun%d" % number, [("label", b"%d" % turn)]) for number in range(BEGUN))


def shown(values):
    """The median of the turns, and each of them."""
    digits = 0 if min(values) >= 100 else 2
    middle, *each = (f"{value:,.{digits}f}" for value in (statistics.median(values), *values))
    return f"{middle} ({', '.join(each)})"


if __name__ == "__main__":
    main()
