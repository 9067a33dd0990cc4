"""Latency and CPU at rest of `sequencer run` with the defaults, for trees of this project in turns.

A service runs as its users run it: the README's configuration, nothing set. From producing to
reading with `read_committed`: p50 and p99 at 5,000 messages/s in 10,000 channels; for groups (32 of
128 subscribers) and multicasts (8 of 1,000 peers) at 3,000 deliveries/s. Then nothing is sent, and
the CPU of all its processes is taken, in percent of a core. Ratios of one run only.

    python bench/latency.py
    python bench/latency.py --trees ../old . --turns 2 --kinds channel --warm 40 --seconds 20
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
from itertools import product
from pathlib import Path

import numpy as np
from groups import membership, to_group
from harness import create, in_order, read_latencies, remove, say, send_paced, warm_broker
from multicast import LATENCY_DESTINATIONS, PEERS, receivers
from process_tree import TICKS, kind_of, session_processes, stat
from service import ended

KINDS = ("channel", "group", "multicast")
CHANNEL_RATE, DELIVERIES_RATE = 5_000, 3_000
GROUPS = 32
SETTLE_SECONDS = 15
"""Behind the last message, before the CPU at rest is taken: markers and timers of what was sent."""
ROLES = ("", ".rejects", ".events", ".commands")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trees", nargs="+", type=Path, default=[Path(__file__).parent.parent])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument(
        "--warm", type=float, default=60, help="seconds before anything is measured"
    )
    parser.add_argument("--seconds", type=float, default=30, help="measured")
    parser.add_argument("--rest", type=float, default=60, help="seconds without input; 0: none")
    parser.add_argument("--rate", type=float, help="messages/s of channels, deliveries/s of others")
    parser.add_argument("--service", default="", help="more lines for the table [service]")
    given = parser.parse_args()
    found = []
    with warm_broker() as broker:
        for turn in range(given.turns):
            for kind, tree in product(given.kinds, given.trees):
                found += [one(broker, tree.absolute(), kind, turn, given)]
    print(
        "| kind | tree | p50 ms | p99 ms | CPU, % of a core: JVM, Python | at rest |\n"
        + "|---" * 6
        + "|"
    )
    for kind in given.kinds:
        for tree in given.trees:
            print(
                row(
                    kind,
                    tree,
                    [each for each in found if each["of"] == (kind, str(tree.absolute()))],
                )
            )


def one(broker, tree, kind, turn, given):
    """What one service took, started and stopped here."""
    name = f"{kind}-{tree.name or 'here'}-{turn}"
    topics = [f"{name}.in", *(f"{name}.out{role}" for role in ROLES)]
    create(broker.bootstrap, *topics)
    record, rate = load(kind, given.rate)
    stop = threading.Event()
    sender = threading.Thread(
        target=send_paced, args=(broker.bootstrap, topics[0], record, rate, stop), daemon=True
    )
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        config = Path(folder, "service.toml")
        config.write_text(written(kind, name, folder, broker.bootstrap, given.service))
        command = [str(tree / ".venv/bin/python"), "-m", "streaming.cli", "run", str(config)]
        with ended(command, Path(folder, "log"), tree) as service:
            sender.start()
            marks = {}

            def mark():
                time.sleep(given.warm)
                marks["begin"] = cpu(service.pid) | {"batches": batches(folder)}
                time.sleep(given.seconds)
                marks["end"] = cpu(service.pid) | {"batches": batches(folder)}

            marker = threading.Thread(target=mark)
            marker.start()
            times = read_latencies(broker.bootstrap, topics[1], given.warm, given.seconds)
            marker.join()
            stop.set()
            sender.join()
            rest = at_rest(service.pid, given.rest)
            tail = Path(folder, "log").read_text(errors="replace").splitlines()[-3:]
    remove(broker.bootstrap, *topics)
    if not len(times):
        raise SystemExit(f"{name}: nothing was read\n" + "\n".join(tail))
    p50, p99 = np.percentile(times[:, 1] - times[:, 0], [50, 99])
    spent = {part: marks["end"][part] - marks["begin"][part] for part in marks["end"]}
    done = spent.pop("batches")
    each_ms = {part: round(seconds * 1000 / max(done, 1)) for part, seconds in spent.items()}
    spent = {part: seconds / given.seconds * 100 for part, seconds in spent.items()}
    told = {part: round(each, 1) for part, each in spent.items()}
    say(
        f"{name}: p50 {p50:.0f}, p99 {p99:.0f} ms, {len(times):,} records; CPU {told}; rest {rest}"
        f"; {done} batches of {given.seconds * 1000 / max(done, 1):.0f} ms, of a core {each_ms}"
    )
    return {"of": (kind, str(tree)), "p50": p50, "p99": p99, "cpu": spent, "rest": rest}


def load(kind, rate):
    """The n-th record, and how many of them a second."""
    if kind == "channel":
        return in_order, rate or CHANNEL_RATE
    rng = np.random.default_rng(3)
    if kind == "group":
        groups = membership(GROUPS)
        names = list(groups)
        fan_out = statistics.mean(map(len, groups.values()))
        return (
            lambda number: (b"p%03d" % (number % 50), to_group(names[rng.integers(len(names))])),
            (rate or DELIVERIES_RATE) / fan_out,
        )
    return (
        lambda _number: (b"p%03d" % rng.integers(PEERS), receivers(rng, LATENCY_DESTINATIONS)),
        (rate or DELIVERIES_RATE) / LATENCY_DESTINATIONS,
    )


def written(kind, name, folder, bootstrap, more):
    """The configuration."""
    lines = [
        "[service]",
        f'name = "{name}"',
        f'checkpoint = "{folder}/checkpoints"',
        more,
        "[kafka]",
        f'bootstrap_servers = "{bootstrap}"',
        "[pipelines.p]",
        f'discipline = "{kind}"',
        f'input = ["{name}.in"]',
        f'output = "{name}.out"',
        *(f'{role} = "{name}.out.{role}"' for role in ("rejects", "events", "commands")),
    ]
    if kind == "group":
        lines.append(f"groups = {toml(membership(GROUPS))}")
    return "\n".join(lines) + "\n"


def toml(groups):
    return "{ " + ", ".join(f"{name} = {json.dumps(each)}" for name, each in groups.items()) + " }"


def batches(folder):
    """The number of the last batch that was planned."""
    logs = Path(folder, "checkpoints").glob("*/offsets/[0-9]*")
    return max((int(each.name) for each in logs), default=0)


def cpu(session):
    """Seconds of a core that a session's processes took, those that have ended too, by kind."""
    spent = {"jvm": 0.0, "python": 0.0}
    for process in session_processes(session):
        if fields := stat(process):
            own_and_ended = sum(map(int, fields[11:15]))
            spent[kind_of(process)] += own_and_ended / TICKS
    return spent


def at_rest(session, seconds):
    """Percent of a core by kind while nothing comes."""
    if not seconds:
        return {}
    time.sleep(SETTLE_SECONDS)
    before = cpu(session)
    time.sleep(seconds)
    after = cpu(session)
    return {part: round((after[part] - before[part]) / seconds * 100, 2) for part in after}


def row(kind, tree, found):
    """A line of the table: the median of the turns, and each of them."""

    def told(values):
        return f"{statistics.median(values):.0f} ({', '.join(f'{each:.0f}' for each in values)})"

    p50, p99 = (told([each[name] for each in found]) for name in ("p50", "p99"))
    spent, rest = (
        ", ".join(
            f"{statistics.median(each[name][part] for each in found):.1f}"
            for part in found[0][name]
        )
        for name in ("cpu", "rest")
    )
    return f"| {kind} | {tree} | {p50} | {p99} | {spent} | {rest} |"


if __name__ == "__main__":
    main()
