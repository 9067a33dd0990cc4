"""The console beside a busy service: how soon views answer, what it costs, what others notice.

A service has a record of each of 1,000,000 channels, one in a hundred of which waits for a label,
and 64 groups that overlap. Then records come at a rate, for some windows of time in turns:
nobody looks and there is no console, or a console runs and two people look at the overview and at
who waits, which refresh themselves every second. Told are the service's CPU for a record in each
window, and the console's CPU and memory. At the end each view is opened three times. Exit status 1
where a view takes longer than a second, or the console more than 5 % of a core or 150 MiB.
"""

import argparse
import base64
import contextlib
import http.client
import itertools
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import Producer
from harness import create, warm_broker
from process_tree import TICKS, resident, stat, watched
from service import COMMAND, ended, running, wait_until

from streaming.kafka.ports import free_port

BLOCKED_OF = 100
GROUPS, SUBSCRIBERS, MEMBERS = 64, 200, 40
GROUP_MESSAGES_EACH_SECOND = 10
ANSWER_SECONDS_MAX, CORE_MAX, MIB_MAX = 1.0, 0.05, 150
LIMIT_SECONDS = 300
OPENED = 3


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


class Looking:
    """Asks a console as browsers do; `seconds` has how long each answer took."""

    def __init__(self, port):
        self.port, self.seconds = port, {}

    def at(self, path, **headers):
        began = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            body = answer.read()
        assert answer.status == 200, (path, answer.status, body[:500])
        self.seconds.setdefault(path, []).append(time.monotonic() - began)

    def look(self, stop, *paths):
        """Look at pages that refresh themselves every second, until told to stop."""
        while not stop.wait(1):
            for path in paths:
                self.at(path, **{"x-fragment": "1"})


def views(channels):
    """The addresses of all views."""
    code = lambda text: base64.urlsafe_b64encode(text).decode()  # noqa: E731
    some = channels // 2 // BLOCKED_OF * BLOCKED_OF
    of_p = [
        "blocked",
        f"blocked?q=c{some}",
        f"channel/{code(b'c%d' % some)}",
        "disorder",
        "records",
    ]
    of_g = [
        "groups",
        "groups.svg?v=1",
        f"group/{code(b'G7')}",
        f"subscriber/{code(b's40')}",
        "records",
    ]
    return [
        "/",
        *(f"/p/p/{each}" for each in (*of_p, "events", "rejects")),
        *(f"/p/g/{each}" for each in (*of_g, "events", "rejects")),
    ]


def core_seconds(process):
    fields = stat(process)
    return (int(fields[11]) + int(fields[12])) / TICKS


def console(config, folder, port):
    words = [*COMMAND, "console", str(config), "--listen", f"127.0.0.1:{port}"]
    return ended(words, folder / "console.log")


def wait_for(port):
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            Looking(port).at("/")
            return
        time.sleep(0.2)
    raise SystemExit("the console does not answer")


def window(watch, feeder, seconds):
    """Microseconds of a core that the service takes for a record, meanwhile."""
    began, before = time.time() * 1000, feeder.sent
    time.sleep(seconds)
    spent = watch.spent(began, time.time() * 1000)
    return (spent["jvm"] + spent["python"]) / (feeder.sent - before) * 1e6


def with_console(config, folder, watch, feeder, seconds):
    """The service's CPU for a record while two people look, and the console's share of a core."""
    port = free_port()
    with console(config, folder, port) as process:
        wait_for(port)
        looking, stop = Looking(port), threading.Event()
        pages = (["/"], ["/p/p/blocked"])
        people = [threading.Thread(target=looking.look, args=(stop, *each)) for each in pages]
        for each in people:
            each.start()
        time.sleep(3)
        before, began = core_seconds(process.pid), time.monotonic()
        cost = window(watch, feeder, seconds)
        share = (core_seconds(process.pid) - before) / (time.monotonic() - began)
        stop.set()
        for each in people:
            each.join()
        return cost, share, looking.seconds


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
    off, on, shares, seconds = [], [], [], {}
    with running(config, folder / "log") as service, watched(service.pid, None) as watch:
        wait_until(config, feeder.sent, LIMIT_SECONDS)
        feeder.thread.start()
        time.sleep(options.seconds / 2)
        for _ in range(options.turns):
            off.append(window(watch, feeder, options.seconds))
            cost, share, taken = with_console(config, folder, watch, feeder, options.seconds)
            on.append(cost)
            shares.append(share)
            for path, each in taken.items():
                seconds.setdefault(path, []).extend(each)
        opened, rss, pss = all_views(config, folder, options.channels)
        feeder.stop.set()
        feeder.thread.join()
    told = [
        f"{without:.1f} without, {with_it:.1f} with"
        for without, with_it in zip(off, on, strict=True)
    ]
    ratio = statistics.median(on) / statistics.median(off)
    print(f"the service, us of CPU a record: {'; '.join(told)} ({ratio:.3f} of it)")
    print(f"two without a console differ by up to {max(off) / min(off) - 1:.1%}")
    print(f"the console, of a core: {', '.join(f'{each:.1%}' for each in shares)}")
    print(f"its memory after all views: {rss:.0f} MiB VmRSS, {pss:.0f} MiB PSS")
    for path, each in seconds.items():
        print(f"  {path} refreshed: median {statistics.median(each):.3f} s, most {max(each):.3f} s")
    for path, each in opened.items():
        print(f"  {path}: first {each[0]:.3f} s, then at most {max(each[1:]):.3f} s")
    slow = [
        path for path, each in (*seconds.items(), *opened.items()) if max(each) > ANSWER_SECONDS_MAX
    ]
    faults = [f"{path} took longer than {ANSWER_SECONDS_MAX} s" for path in slow]
    faults += [f"{share:.1%} of a core"] if (share := max(shares)) > CORE_MAX else []
    return faults + ([f"{rss:.0f} MiB"] if rss > MIB_MAX else [])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--channels", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=10_000, help="records a second")
    parser.add_argument("--seconds", type=float, default=20, help="of each window")
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, warm_broker() as broker:
        faults = run(options, Path(folder), broker)
    print("; ".join(faults) or "within a second, 5 % of a core and 150 MiB")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
