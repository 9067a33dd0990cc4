"""Run seeds: `python -m tests.simulated --seeds 1000 [--first N] [--show SEED]`."""

import argparse
import sys
import time

from tests.simulated.run import run, shrink


def main():
    """Run the seeds that are asked for; status 1 where one fails."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--first", type=int, default=0, help="the first seed")
    asked.add_argument("--seeds", type=int, default=1000, help="how many")
    asked.add_argument("--show", type=int, help="run one seed, shrunk, and print its history")
    options = asked.parse_args()
    if options.show is not None:
        keep = shrink(options.show)
        faults, history = run(options.show, keep)
        print("\n".join(history.world.log))
        print("\n".join(faults) or "nothing is wrong")
        return int(bool(faults))
    began, failed = time.monotonic(), []
    for seed in range(options.first, options.first + options.seeds):
        faults, _ = run(seed)
        if faults:
            failed.append(seed)
            print(f"seed {seed}: {faults[0]}")
    minutes = (time.monotonic() - began) / 60
    print(f"{options.seeds} seeds, {len(failed)} failed, {options.seeds / minutes:,.0f} a minute")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
