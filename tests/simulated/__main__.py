"""Run seeds: `python -m tests.simulated --seeds 1000 [--first N] [--show SEED]`."""

import argparse
import math
import sys
import time

from tests.simulated import planted_mends, planted_reading, planted_writing
from tests.simulated.planting import PLANTS, planted
from tests.simulated.run import run, shrink


def found(name, first, seeds):
    """Print which seed finds a planted fault, and how; 1 where none does."""
    with planted(name):
        for seed in range(first, first + seeds):
            try:
                faults, _ = run(seed)
            except Exception as error:  # noqa: BLE001  (a plant may break anything)
                faults = [f"{type(error).__name__}: {error}"]
            if faults:
                print(f"{name}: seed {seed}: {faults[0][:120]}", flush=True)
                return 0
    print(f"{name}: not found by {seeds} seeds", flush=True)
    return 1


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
    options = asked.parse_args()
    if options.planted:
        names = sorted(PLANTS) if options.planted == "all" else [options.planted]
        return max(found(name, options.first, options.seeds) for name in names)
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
            print(f"seed {seed}: {faults[0]}", flush=True)
    minutes = (time.monotonic() - began) / 60
    print(f"{count} seeds, {len(failed)} failed, {minutes:.1f} minutes")
    return int(bool(failed))


ALL = (planted_mends, planted_reading, planted_writing)
"""Modules whose plants are among `PLANTS`."""

if __name__ == "__main__":
    sys.exit(main())
