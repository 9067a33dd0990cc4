"""A service under faults: `python -m tests.chaos.run`, a row for each of what came of it.

At the end nothing may be missing, doubled or out of order: `sequencer verify` judges the topics,
`status` counts. What a fault may do is said before it is done.
"""

import argparse
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.chaos import table
from tests.chaos.catalogue import FAULTS, GROUPS, kafka_for, sample, short
from tests.chaos.fault import outcome
from tests.chaos.place import Place
from tests.chaos.traffic import NAMES

SECONDS = 120
"""For the faults of a run that does not name them; start and judgement come beside."""
FAULT_SECONDS_MAX = 20
"""Of what is chosen where no fault is named."""
FAULTS_MAX = 12
"""Of these."""


def run(place, faults, seconds, say):
    """Let faults come, as long as there are ``seconds`` left; a row for each and each pipeline."""
    rows = []
    with place:
        place.next_deliveries()
        begun = time.monotonic()
        for fault in faults:
            if time.monotonic() - begun + fault.seconds > seconds:
                say(f"no time: {fault.name}")
                continue
            say(f"{fault.name}; may: {fault.allowed()}")
            rows += through(place, fault)
            say(f"    {rows[-1]['outcome']}")
        say("sequencer verify")
        place.judge()
    return rows


def through(place, fault):
    """One fault, from its begin until every pipeline delivers again."""
    place.forget()
    with fault.act(place):
        place.wait(fault.seconds)
    ended = time.time()
    first = place.next_deliveries()
    fault.judge(place.endings)
    same = {"fault": fault.name, "outcome": outcome(place.endings, place.remarks)}
    return [
        {**same, "pipeline": name, "seconds": round(at - ended, 1)} for name, at in first.items()
    ]


def say(text):
    """To whoever waits."""
    print(f"{time.strftime('%T')} {text}", file=sys.stderr, flush=True)


def arguments():
    """The words of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--times", type=int, default=1, help="of each fault")
    parser.add_argument("--fault", nargs="+", choices=FAULTS, metavar="NAME", default=[])
    parser.add_argument("--group", nargs="+", choices=GROUPS, default=[])
    parser.add_argument("--pipeline", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--seconds", type=float, help="no fault begins that would end later")
    parser.add_argument("--json", type=Path, help="add the rows to this file's")
    parser.add_argument("--list", action="store_true", help="all faults, and what they may do")
    return parser.parse_args()


def main():
    """Run it as the words of the command line say; exit status 1 where a guarantee is broken."""
    given = arguments()
    if given.list:
        print("\n".join(f"{name}: {fault.allowed()}" for name, fault in FAULTS.items()))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # nothing is left behind
    names = given.fault + [each.name for group in given.group for each in GROUPS[group]]
    seconds = given.seconds or (float("inf") if names else SECONDS)
    faults = sample(names or short(FAULT_SECONDS_MAX), given.times, given.seed)
    faults = faults if names else faults[:FAULTS_MAX]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        kafka = stack.enter_context(kafka_for(faults))
        place = Place(kafka, folder, given.pipeline, given.seed)
        rows = run(place, faults, seconds, say)
    if given.json:
        table.add(given.json, [{**row, "seed": given.seed} for row in rows])
    print("\n".join(table.lines(rows)))


if __name__ == "__main__":
    main()
