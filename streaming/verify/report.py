"""A verdict as people and programs read it."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from streaming.config import load_config
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
    verdicts = verify(settings, settings.named(names or []), wait, causes)
    if sys.stderr.isatty():
        print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    if as_json:
        print(json.dumps([asdict(verdict) for verdict in verdicts], indent=2))
        return all(verdict.good for verdict in verdicts)
    for verdict in verdicts:
        looked = ", ".join(f"{count:,} {what}" for what, count in verdict.looked_at.items())
        print(f"{verdict.pipeline}: {'in order' if verdict.good else 'FAULTS'} ({looked})")
        for name, count in sorted(verdict.counts.items()):
            print(f"  {name}: {count:,}")
            shown = [fault.witness for fault in verdict.faults if fault.name == name]
            for witness in shown[:WITNESSES_SHOWN]:
                print(f"    {printable(witness)}")
    return all(verdict.good for verdict in verdicts)
