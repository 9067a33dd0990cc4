"""A service at work for long, with a fault a minute: `python -m tests.chaos.endurance --minutes 60`.

What it takes is looked at all the time: memory, threads and handles of its processes, the files of its
checkpoint, how long batches and deliveries take. At the end nothing may be missing, doubled or out of
order, and nothing may have grown: what was so at the end of each minute, before the next fault, is
compared, the last third of the minutes with the third before. Faults that end the service come in the
first minutes only, so that what a process leaks is not gone with it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.catalogue import kafka_for, sample
from tests.chaos.fault import Fault
from tests.chaos.place import Place
from tests.chaos.processes import everything
from tests.chaos.run import say, through
from tests.chaos.traffic import NAMES

MINUTE = 60.0
LOOK_SECONDS = 2.0
SETTLED_SECONDS = 20.0
"""So long before the next fault counts as the end of a minute."""
PAGE_BYTES = 4096
ENDING = ("driver killed", "JVM killed", "service stopped")
"""Faults that end the service."""
ENDING_SHARE = 6
"""They come in one of so many minutes, the first ones."""
CHOSEN = (
    *("worker killed", "worker stands still for 5 s", "JVM stands still for 5 s"),
    "connections of all cut 10 times",
    *("answers of one connection lost for 20 s", "requests of one connection held back 20 s"),
)
"""Faults that it lives through. All of both leave the topics and the machine as they were, and end
within a minute."""
FULL_MINUTES = 30
"""Of a run that can tell whether a checkpoint's files become more: Spark keeps those of each pipeline's
last 100 batches, and removes older ones once a minute. The middle third begins when these are there."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Something that must not grow: by how much at most, as a factor and beyond it.

    ``fills``: it becomes more for some minutes of each checkpoint.
    """

    name: str
    unit: str
    factor: float = 1.1
    more: float = 0.0
    fills: bool = False


MEASURES = (
    Measure("memory", "MiB", more=50),
    Measure("threads", "", more=20),
    Measure("handles", "", more=50),
    Measure("files", "", more=200, fills=True),
    Measure("held", "", more=10),
    Measure("checkpoint", "MiB", more=2, fills=True),
    Measure("batch", "ms", factor=1.5, more=500),
    Measure("latency", "ms", factor=1.5, more=1_000),
)


SAID = {"files": "files of the checkpoint", "held": "files of held records"}
"""In pictures."""


def look(place: Place, begun: float) -> dict[str, float]:
    """What a service takes now; in it are the seconds since ``begun``, and how busy the machine is."""
    found = dict.fromkeys((each.name for each in MEASURES), 0.0)
    for pid in everything(place):
        with suppress(OSError):
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            found["memory"] += pages * PAGE_BYTES / 2**20
            found["threads"] += len(list(Path(f"/proc/{pid}/task").iterdir()))
            found["handles"] += len(list(Path(f"/proc/{pid}/fd").iterdir()))
    root = place.config.parent / "checkpoints"
    for path in root.rglob("*"):
        with suppress(OSError):
            if path.is_file():
                found["files"] += 1
                found["held"] += "held" in path.parts
                found["checkpoint"] += path.stat().st_size / 2**20
    for path in root.glob("*/status.json"):
        with suppress(OSError, ValueError):
            found["batch"] = max(found["batch"], json.loads(path.read_text())["batch_ms"])
    late = place.deliveries.taken_ms()
    found["latency"] = statistics.median(late) if late else 0.0
    return {"seconds": time.monotonic() - begun, "load": os.getloadavg()[0], **found}


def ends(samples: list[dict[str, float]], minutes: list[float]) -> list[dict[str, float]]:
    """What was so at the end of each minute: medians of the last looks before these moments."""
    found = []
    for stop in minutes:
        some = [each for each in samples if stop - SETTLED_SECONDS <= each["seconds"] <= stop]
        if some:
            found.append({m.name: statistics.median(e[m.name] for e in some) for m in MEASURES})
    return found


def grown(rounds: list[dict[str, float]]) -> list[str]:
    """What has grown from the middle third of the minutes to the last one, as sentences."""
    third = max(len(rounds) // 3, 1)
    before, after = rounds[-2 * third : -third] or rounds[:1], rounds[-third:]
    found = []
    for each in MEASURES:
        first, last = (
            statistics.median(one[each.name] for one in some) for some in (before, after)
        )
        is_told = len(rounds) >= FULL_MINUTES or not each.fills
        if is_told and last > first * each.factor + each.more:
            found.append(f"{each.name} grew from {first:,.0f} to {last:,.0f} {each.unit}".rstrip())
    return found


def draw(samples: list[dict[str, float]], faults: list[tuple[float, str]], path: Path) -> None:
    """A line for each measure over the time, and a mark for each fault."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    rows = -(-len(MEASURES) // 2)
    figure, axes = plt.subplots(rows, 2, sharex=True, figsize=(10, 8))
    for axis, each in zip(axes.T.flat, MEASURES, strict=True):
        for at, name in faults:
            is_end = name in ENDING
            axis.axvline(at / MINUTE, color="tab:red" if is_end else "lightgrey", lw=0.7)
        minutes = [sample["seconds"] / MINUTE for sample in samples]
        axis.plot(minutes, [sample[each.name] for sample in samples], lw=1)
        axis.set_title(", ".join(filter(None, [SAID.get(each.name, each.name), each.unit])), size=9)
        axis.set_ylim(bottom=0)
    for axis in axes[-1]:
        axis.set_xlabel("minutes (lines: a fault begins; red: one that ends the service)", size=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


@dataclass(slots=True)
class Seen:
    """What was seen: all looks, when faults began, when minutes ended."""

    samples: list[dict[str, float]] = field(default_factory=list)
    faults: list[tuple[float, str]] = field(default_factory=list)
    stops: list[float] = field(default_factory=list)

    def ends(self) -> list[dict[str, float]]:
        """What was so at the end of each minute."""
        return ends(self.samples, self.stops)

    def note(self, path: Path | None) -> None:
        """Write it to a file, as far as it is."""
        if path:
            found = {"samples": self.samples, "faults": self.faults, "ends": self.ends()}
            path.write_text(json.dumps(found))


def chosen(minutes: int, seed: int) -> list[Fault]:
    """A fault for each minute, those that end the service first."""
    ending = -(-minutes // ENDING_SHARE)
    return [
        fault
        for names, count in ((ENDING, ending), (CHOSEN, minutes - ending))
        for fault in sample(names, -(-count // len(names)), seed)[:count]
    ]


def endure(place: Place, faults: list[Fault], seen: Seen, path: Path | None) -> None:
    """Let a fault come each minute; note what is seen at the end of each, also in a file."""
    begun = time.monotonic()
    for number, fault in enumerate(faults):
        seen.faults.append((time.monotonic() - begun, fault.name))
        say(f"{number + 1} of {len(faults)}: {fault.name}")
        through(place, fault)
        due = begun + (number + 1) * MINUTE
        while not seen.samples or time.monotonic() < due:
            place.tend()
            seen.samples.append(look(place, begun))
            time.sleep(LOOK_SECONDS)
        seen.stops.append(time.monotonic() - begun)
        seen.note(path)


def main() -> None:
    """Run it; exit status 1 where something grew, or a guarantee is broken."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--minutes", type=int, default=5)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--pipeline", nargs="+", choices=NAMES, default=list(NAMES))
    asked.add_argument("--json", type=Path, help="where to write what was seen")
    asked.add_argument("--plot", type=Path, help="where to draw it")
    given = asked.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # nothing is left behind
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="endurance-")))
        faults, seen = chosen(given.minutes, given.seed), Seen()
        kafka = stack.enter_context(kafka_for(faults))
        with Place(kafka, folder, given.pipeline, given.seed) as place:
            place.next_deliveries()
            try:
                endure(place, faults, seen, given.json)
            finally:
                if given.plot and seen.samples:
                    draw(seen.samples, seen.faults, given.plot)
            say("sequencer verify")
            place.judge()
    rounds = seen.ends()
    for each in MEASURES:
        values = ", ".join(f"{one[each.name]:,.0f}" for one in rounds)
        print(f"{each.name} {each.unit}".rstrip() + f": {values}")
    found = grown(rounds)
    print("\n".join(found) or "nothing has grown; everything was delivered once, in order")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
