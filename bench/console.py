"""The console beside a busy service: how soon views answer, what it costs, what others notice.

A service has a record of each of 1,000,000 channels, one in a hundred of which waits for a label,
and 64 groups that overlap. Then records come at a rate, for pairs of short windows of time: in one
of each pair two people look at the overview and at who waits, which refresh themselves every
second; in the other the console is halted, as if there was none. A window goes from a batch's end
to another's. Told are the CPU of the service and of the broker for a record with the console, as a
ratio to that without, pair by pair, and the console's CPU. Then each view is opened three times,
`--browse` has a browser look at live views (`browsing`), and at last, while no records come,
counts what it costs the service to answer the console's only question to it.
Exit status 1 where a view takes longer than a second, the console more than 5 % of a core or
150 MiB, or what the browser does is beyond its own bounds.
"""

import argparse
import itertools
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import browsing
from confluent_kafka import Producer
from harness import create, warm_broker
from process_tree import core_seconds, resident, session_processes
from scipy import stats
from service import COMMAND, ended, running, wait_until
from visitors import BLOCKED_OF, LIMIT_SECONDS, Crowd, Looking, views, wait_for

from streaming.config import load_config
from streaming.console.history import SLOW_SECONDS
from streaming.kafka.ports import free_port
from streaming.service.checkpoint import STATUS, Checkpoint

GROUPS, SUBSCRIBERS, MEMBERS = 64, 200, 40
GROUP_MESSAGES_EACH_SECOND = 10
ANSWER_SECONDS_MAX, CORE_MAX, MIB_MAX = 1.0, 0.05, 150
OPENED = 3
SETTLE_SECONDS = 0.5
REST_SECONDS, QUESTIONS = 10, 300


def config_file(folder, bootstrap):
    """Two pipelines: channels, and groups of which each shares members with many others."""
    names = [
        f"{name}.{role}" for name in "pg" for role in ("in", "out", "rejects", "events", "commands")
    ]
    create(bootstrap, *names)
    groups = {
        f"G{n}": [f"s{(n * 3 + each) % SUBSCRIBERS}" for each in range(MEMBERS)]
        for n in range(GROUPS)
    }
    listed = ", ".join(f"{name} = {members!r}" for name, members in groups.items())
    path = folder / "service.toml"
    path.write_text(
        f'[service]\nname = "bench"\ncheckpoint = "{folder}/checkpoints"\n'
        f'metrics = "127.0.0.1:{free_port()}"\n'
        f'[kafka]\nbootstrap_servers = "{bootstrap}"\n[spark]\n"spark.master" = "local[2]"\n'
        f'[pipelines.p]\ndiscipline = "channel"\n'
        f'[pipelines.g]\ndiscipline = "group"\ngroups = {{ {listed} }}\n'
    )
    return path


class Feeder:
    """Gives the service records at a rate, in a thread; `sent` counts those of channels."""

    def __init__(self, bootstrap, channels, rate):
        settings = {"bootstrap.servers": bootstrap, "linger.ms": 20, "compression.type": "lz4"}
        self.producer = Producer(settings)
        self.channels, self.rate, self.sent = channels, rate, 0
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def fill(self):
        """A record of each channel, and one behind a hole of those that wait."""
        for label, channels in (
            (0, range(self.channels)),
            (2, range(0, self.channels, BLOCKED_OF)),
        ):
            for channel in channels:
                self._send(channel, label)
        assert self.producer.flush(300) == 0

    def _send(self, channel, label):
        while len(self.producer) > 90_000:
            self.producer.poll(0.01)
        headers = [("label", b"%d" % label)]
        self.producer.produce("p.in", bytes(100), b"c%d" % channel, headers=headers)
        self.sent += 1

    def _run(self):
        """Go on with all channels that do not wait, ten times a second with some of them."""
        going = (
            (n, label)
            for label in itertools.count(1)
            for n in range(self.channels)
            if n % BLOCKED_OF
        )
        due = time.monotonic()
        for turn in itertools.count():
            for channel, label in itertools.islice(going, self.rate // 10):
                self._send(channel, label)
            if turn % 10 == 0:
                for n in range(GROUP_MESSAGES_EACH_SECOND):
                    group = b"G%d" % ((turn // 10 * GROUP_MESSAGES_EACH_SECOND + n) % GROUPS)
                    self.producer.produce("g.in", bytes(100), b"sender", headers=[("group", group)])
            self.producer.poll(0)
            due += 0.1
            if self.stop.wait(max(0, due - time.monotonic())):
                return


def console(config, folder, port, *more):
    words = [*COMMAND, "console", str(config), "--listen", f"127.0.0.1:{port}", *more]
    return ended(words, folder / "console.log")


class Meter:
    """What service and broker took of a core, between ends of batches of the pipeline `p`."""

    def __init__(self, config, service, broker):
        self.service, self.broker = service, broker
        self.checkpoint = Checkpoint.of(load_config(config), "p")
        self.status = config.parent / "checkpoints" / "p" / STATUS

    def of_service(self):
        return sum(map(core_seconds, session_processes(self.service)))

    def at_batch_end(self):
        """Wait for one: seconds of a core of the service and of the broker, and records seen."""
        before, deadline = self.status.stat().st_mtime_ns, time.monotonic() + LIMIT_SECONDS
        while self.status.stat().st_mtime_ns == before:
            assert time.monotonic() < deadline, "no batch ends"
            time.sleep(0.02)
        cpu = self.of_service(), core_seconds(self.broker)
        shards = self.checkpoint.status()["shards"].values()
        return *cpu, sum(each["seen"] for each in shards)

    def window(self, seconds):
        """Microseconds of a core for a record: the service's, the broker's."""
        before = self.at_batch_end()
        time.sleep(seconds)
        service, broker, seen = (b - a for a, b in zip(before, self.at_batch_end(), strict=True))
        return service / seen * 1e6, broker / seen * 1e6

    def of_an_answer(self, address):
        """Seconds of a core that the service, at rest, takes to answer /metrics once."""
        idle, began = self.of_service(), time.monotonic()
        time.sleep(REST_SECONDS)
        rate = (self.of_service() - idle) / (time.monotonic() - began)
        before, began = self.of_service(), time.monotonic()
        for _ in range(QUESTIONS):
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as answer:
                answer.read()
        took = time.monotonic() - began
        return (self.of_service() - before - rate * took) / QUESTIONS


def in_turns(config, folder, meter, seconds, turns):
    """Pairs of windows without a console and with one; its share of a core, its answers."""
    port = free_port()
    without, with_it, spent, lasted = [], [], 0.0, 0.0
    with console(config, folder, port) as process:
        wait_for(port)
        crowd = Crowd(process, port)
        try:
            for turn in range(2 * turns):
                is_with = turn % 4 in {1, 2}  # what grows or shrinks meanwhile is in both alike
                (crowd.come if is_with else crowd.leave)()
                time.sleep(SETTLE_SECONDS)
                before, began = core_seconds(process.pid), time.monotonic()
                (with_it if is_with else without).append(meter.window(seconds))
                if is_with:
                    spent += core_seconds(process.pid) - before
                    lasted += time.monotonic() - began
        finally:
            crowd.end()
    return without, with_it, spent / lasted, crowd.looking.seconds


def paired(without, with_it):
    """The mean ratio of pairs, and half of the interval that has the true one with 95 %."""
    ratios = [b / a for a, b in zip(without, with_it, strict=True)]
    half = stats.t.ppf(0.975, len(ratios) - 1) * statistics.stdev(ratios) / len(ratios) ** 0.5
    return statistics.mean(ratios), float(half)


def all_views(config, folder, channels):
    """How long each view takes, the first time and the slowest of the others; memory behind it."""
    port = free_port()
    with console(config, folder, port) as process:
        wait_for(port)
        time.sleep(6)  # the lag and the metrics have been asked for
        looking = Looking(port)
        for _ in range(OPENED):
            for path in views(channels):
                looking.at(path)
        status = Path(f"/proc/{process.pid}/status").read_text()
        rss = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
        return looking.seconds, rss / 1024, sum(resident(process.pid).values())


def run(options, folder, broker):
    config = config_file(folder, broker.bootstrap)
    feeder = Feeder(broker.bootstrap, options.channels, options.rate)
    feeder.fill()
    faults = []
    with running(config, folder / "log") as service:
        wait_until(config, feeder.sent, LIMIT_SECONDS)
        meter = Meter(config, service.pid, broker.pid)
        feeder.thread.start()
        time.sleep(options.seconds)
        if options.turns:
            faults += costs(config, folder, meter, options)
        faults += opened_views(config, folder, options.channels)
        if options.browse:
            faults += browsed(config, folder, options.browse)
        feeder.stop.set()
        feeder.thread.join()
        if options.turns:
            wait_until(config, feeder.sent, LIMIT_SECONDS)
            ms = 1000 * meter.of_an_answer(load_config(config).service.metrics)
            share = ms / 1000 / SLOW_SECONDS
            print(
                f"an answer of the service to the console: {ms:.1f} ms of a core, "
                f"one in {SLOW_SECONDS} s: {share:.2%} of a core"
            )
    return faults


def costs(config, folder, meter, options):
    without, with_it, share, seconds = in_turns(
        config, folder, meter, options.seconds, options.turns
    )
    for name, a, b in zip(
        ("service", "broker"), zip(*without, strict=True), zip(*with_it, strict=True), strict=True
    ):
        ratio, half = paired(a, b)
        print(
            f"the {name}'s CPU for a record: {statistics.median(a):.1f} us without a console, "
            f"{statistics.median(b):.1f} with; {ratio:.3f} of it, \u00b1 {half:.3f} "
            f"({len(a)} pairs, 95 %)"
        )
    print(f"the console, of a core: {share:.1%}")
    for path, each in seconds.items():
        print(f"  {path} refreshed: median {statistics.median(each):.3f} s, most {max(each):.3f} s")
    faults = [f"{share:.1%} of a core"] if share > CORE_MAX else []
    return faults + slow(seconds)


def opened_views(config, folder, channels):
    opened, rss, pss = all_views(config, folder, channels)
    print(f"its memory after all views: {rss:.0f} MiB VmRSS, {pss:.0f} MiB PSS")
    for path, each in opened.items():
        print(f"  {path}: first {each[0]:.3f} s, then at most {max(each[1:]):.3f} s")
    return slow(opened) + ([f"{rss:.0f} MiB"] if rss > MIB_MAX else [])


def slow(seconds):
    return [
        f"{path} took longer than {ANSWER_SECONDS_MAX} s"
        for path, each in seconds.items()
        if max(each) > ANSWER_SECONDS_MAX
    ]


def browsed(config, folder, seconds):
    """What live views cost a browser, with somebody who may act before it."""
    port, token = free_port(), folder / "token"
    token.write_text("a-token-of-the-bench")
    with console(config, folder, port, "--token-file", str(token)):
        wait_for(port)
        paths = ("/", "/p/p/blocked", "/p/g/groups")
        return browsing.look(f"http://127.0.0.1:{port}", token.read_text(), paths, seconds)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--channels", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=10_000, help="records a second")
    parser.add_argument("--seconds", type=float, default=3, help="of each window, at least")
    parser.add_argument("--turns", type=int, default=24, help="pairs of windows; 0: no windows")
    parser.add_argument("--browse", type=float, default=0, help="seconds before each live view")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, warm_broker() as broker:
        faults = run(options, Path(folder), broker)
    print("; ".join(faults) or "within all bounds")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
