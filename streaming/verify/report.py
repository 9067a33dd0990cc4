"""A verdict as people and programs read it."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from streaming.config import load_config
from streaming.kafka import topics
from streaming.terminal import printable
from streaming.verify.run import verify

WITNESSES_SHOWN = 3


def report_on(
    config: Path,
    names: list[str] | None = None,
    wait: float = 10.0,
    causes: str = "",
    *,
    as_json: bool = False,
) -> bool:
    """Judge and report; True where no fault was found."""
    settings = load_config(config)
    judged = settings.named(names or [])
    inputs = {topic for name in judged for topic in settings.pipelines[name].input}
    if missing := sorted(inputs - topics.existing(settings).keys()):
        print(f"These inputs are not in Kafka: {', '.join(missing)}.", file=sys.stderr)
    verdicts = verify(settings, judged, wait, causes)
    if sys.stderr.isatty():
        print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    if as_json:
        shown = [{**asdict(each), "anomalies": each.anomalies} for each in verdicts]
        print(json.dumps(shown, indent=2))
        return all(verdict.good for verdict in verdicts)
    for verdict in verdicts:
        looked = ", ".join(f"{count:,} {what}" for what, count in verdict.looked_at.items())
        print(f"{verdict.pipeline}: {'in order' if verdict.good else 'FAULTS'} ({looked})")
        for name, count in sorted(verdict.counts.items()):
            known = verdict.anomalies.get(name)
            print(f"  {name}: {count:,}" + (f" (Elle, Jepsen: {known})" if known else ""))
            for witness in verdict.smallest(name, WITNESSES_SHOWN):
                print(f"    {printable(witness, kept='')}")
    return all(verdict.good for verdict in verdicts)
