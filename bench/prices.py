"""What features cost where they are switched on, and whether they cost anything where they are not.

`sequencer run --once` works through one topic, for trees of this project and for settings in turns:
CPU of all its processes, less that of a run with next to nothing to read. Ratios of one run only.

    python bench/prices.py --kinds channel group --trees ../old .
    python bench/prices.py --kinds channel --with 'notices = true' --with 'progress = true'
"""

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

import numpy as np
from groups import drawn, membership, to_group
from harness import create, fill, fill_by_senders, in_order, remove, say, warm_broker
from latency import GROUPS, ROLES, cpu, written
from multicast import receivers

LIMIT_SECONDS = 300
NUMBERS = itertools.count()
RECORDS = {"channel": 1_500_000, "group": 80_000, "multicast": 150_000}
DESTINATIONS = 8


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trees", nargs="+", type=Path, default=[Path(__file__).parent.parent])
    parser.add_argument("--kinds", nargs="+", choices=RECORDS, default=list(RECORDS))
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the records")
    parser.add_argument("--with", dest="settings", action="append", default=[])
    given = parser.parse_args()
    ways = [(tree.absolute(), more) for tree in given.trees for more in ("", *given.settings)]
    found = {}
    with warm_broker() as broker:
        for kind in given.kinds:
            count = round(RECORDS[kind] * given.scale)
            for name, records in ((kind, count), (f"{kind}-none", 1)):
                filled(broker.bootstrap, kind, f"{name}.in", records)
            nothing = {way: one(broker, kind, f"{kind}-none", *way)[0] for way in ways}
            for _, way in product(range(given.turns), ways):
                spent, seconds = one(broker, kind, kind, *way)
                found.setdefault((kind, *way), []).append((spent - nothing[way], seconds))
                say(f"{kind} {way[0].name} {way[1]!r}: {found[kind, *way][-1]}")
    print("| kind | tree | with | CPU, µs a record | of the first | seconds, with the start |")
    print("|---" * 6 + "|")
    for (kind, tree, more), each in found.items():
        cost = statistics.median(spent for spent, _ in each)
        first = statistics.median(spent for spent, _ in found[kind, *ways[0]])
        seconds = ", ".join(f"{seconds:.0f}" for _, seconds in each)
        number = RECORDS[kind] * given.scale
        shown = f"{cost / number * 1e6:.2f} | {cost / first:.2f} | {seconds}"
        print(f"| {kind} | {tree.name} | {more or '-'} | {shown} |", flush=True)


def filled(bootstrap, kind, topic, count):
    if kind == "channel":
        fill(bootstrap, topic, map(in_order, range(count)))
    elif kind == "group":
        fill_by_senders(bootstrap, topic, map(to_group, drawn(membership(GROUPS), count)))
    else:
        rng = np.random.default_rng(3)
        fill_by_senders(bootstrap, topic, (receivers(rng, DESTINATIONS) for _ in range(count)))


def one(broker, kind, name, tree, more):
    """CPU seconds and seconds of one run over the topic `<name>.in`."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        topics = [f"{name}.out{role}" for role in ROLES]
        create(broker.bootstrap, *topics)
        config = Path(folder, "service.toml")
        lines = written(kind, name, folder, broker.bootstrap, "")
        lines = lines.replace(f'name = "{name}"', f'name = "{name}-{next(NUMBERS)}"')
        config.write_text(f"{lines}{more}\n")
        words = (sys.executable, "-m", "streaming.cli", "run", str(config), "--once")
        own = {**os.environ, "PYTHONPATH": str(tree)}
        began, spent = time.monotonic(), 0.0
        with Path(folder, "log").open("wb") as log:
            service = subprocess.Popen(words, stderr=log, start_new_session=True, cwd=tree, env=own)
            while service.poll() is None and time.monotonic() - began < LIMIT_SECONDS:
                spent = max(spent, sum(cpu(service.pid).values()))
                time.sleep(0.1)
        seconds = time.monotonic() - began
        if service.poll() != 0:
            service.kill()
            raise SystemExit(Path(folder, "log").read_text(errors="replace")[-2_000:])
        progress = [f"{name}.out.progress"] if "progress" in more else []
        remove(broker.bootstrap, *topics, *progress)
    return spent, seconds


if __name__ == "__main__":
    main()
