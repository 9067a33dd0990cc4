"""Run seeds: `python -m tests.simulated --seeds 1000 [--first N] [--show SEED]`."""

import argparse
import gc
import math
import resource
import sys
import time
from pathlib import Path

from tests.simulated import table
from tests.simulated.finding import PLANTS, found, short
from tests.simulated.run import run, shrink

YOUNG_MAX = 50_000
"""Objects that are made before Python looks for garbage: by default a sixth of the time goes there."""
SAID_EVERY = 1_000
MEMORY_BYTES_MAX = 8 * 2**30
"""Who does not compare checksums may take damaged lengths for lengths."""


def planted(options):
    """Look for planted faults; status 1 where one is not found."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    least = MEMORY_BYTES_MAX if most == resource.RLIM_INFINITY else min(MEMORY_BYTES_MAX, most)
    resource.setrlimit(resource.RLIMIT_AS, (least, most))
    names = sorted(PLANTS) if options.planted == "all" else [options.planted]
    missing = 0
    for name in names:
        each = found(name, options.first, options.seeds, options.seconds)
        print(f"{name}: seed {each['seed']} of {each['seeds']}: {each['said']}", flush=True)
        missing += each["seed"] is None
        if options.json:
            table.add(options.json, name, each)
    return int(missing > 0)


def main():
    """Run the seeds that are asked for; status 1 where one fails."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--first", type=int, default=0, help="the first seed")
    asked.add_argument("--seeds", type=int, default=1000, help="how many")
    asked.add_argument("--seconds", type=float, default=math.inf, help="no seed begins later")
    asked.add_argument("--show", type=int, help="run one seed, shrunk, and print its history")
    asked.add_argument(
        "--planted", help="a fault to plant (all: each of them), until a seed finds it"
    )
    asked.add_argument("--json", type=Path, help="note in this file what found a plant")
    options = asked.parse_args()
    gc.set_threshold(YOUNG_MAX)
    if options.planted:
        return planted(options)
    if options.show is not None:
        keep = shrink(options.show)
        faults, history = run(options.show, keep)
        print("\n".join(history.world.log))
        print("\n".join(faults) or "nothing is wrong")
        return int(bool(faults))
    began, failed, count = time.monotonic(), [], 0
    for seed in range(options.first, options.first + options.seeds):
        if time.monotonic() - began > options.seconds:
            break
        faults, _ = run(seed)
        count += 1
        if faults:
            failed.append(seed)
            print(f"seed {seed}: {short(faults[0])}", flush=True)
        if count % SAID_EVERY == 0:
            print(f"{count} seeds, {len(failed)} failed", file=sys.stderr, flush=True)
    minutes = (time.monotonic() - began) / 60
    print(f"{count} seeds, {len(failed)} failed, {minutes:.1f} minutes")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
