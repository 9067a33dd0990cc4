"""`sequencer simulate --safety`: networks under faults, judged."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

import typer

from streaming.errors import ConfigError

if TYPE_CHECKING:
    from sequencer.simulation.carrier import Faults
    from sequencer.simulation.safety import Verdict

NOTHING = "Nothing was simulated."


def judge_runs(faults: str, runs: int, seed: int, *, as_json: bool) -> None:
    """Run networks with the seeds from `seed` on; exit status 1 at the first broken invariant."""
    from sequencer.simulation.safety import run  # noqa: PLC0415  (a quick --help)
    from streaming.simulate.progress import tracked  # noqa: PLC0415

    chosen = chosen_faults(faults)
    verdicts: list[Verdict] = []
    for each in tracked("safety", range(seed, seed + runs)):
        verdicts.append(run(each, chosen))
        if verdicts[-1].anomaly is not None:
            break
    if as_json:
        print(json.dumps(_plain(verdicts, chosen), indent=2))
    else:
        _tell(verdicts)
    if verdicts[-1].anomaly is not None:
        again = f"sequencer simulate --safety --runs 1 --seed {verdicts[-1].seed}"
        again += f" --faults {faults}" if faults else ""
        print(f"To see it again: {again}", file=sys.stderr)
        raise typer.Exit(1)


def chosen_faults(text: str) -> Faults:
    """The faults that are wanted; ConfigError for anything that is none."""
    from sequencer.simulation.carrier import NONE  # noqa: PLC0415
    from sequencer.simulation.safety import HARSH  # noqa: PLC0415

    if text == "none":
        return NONE
    known = [field.name for field in fields(HARSH)]
    rates: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name not in known:
            raise ConfigError(
                f"There is no fault {name}.", NOTHING, f"Choose among {', '.join(known)}."
            )
        try:
            rates[name] = int(value) if name in ("cuts", "crashes") else float(value)
        except ValueError:
            raise ConfigError(
                f"The fault {name} has no number: {part}.",
                NOTHING,
                f"Write {name}=0.1 or the like.",
            ) from None
    try:
        return replace(HARSH, **rates)
    except ValueError as error:
        raise ConfigError(f"--faults: {error}.", NOTHING, "Correct that number.") from None


def _plain(verdicts: list[Verdict], faults: Faults) -> dict[str, object]:
    return {
        "faults": asdict(faults),
        "runs": [
            {
                **asdict(verdict),
                "anomaly": None if verdict.anomaly is None else str(verdict.anomaly),
            }
            for verdict in verdicts
        ],
    }


def _tell(verdicts: list[Verdict]) -> None:
    happened: Counter[str] = Counter()
    for verdict in verdicts:
        happened.update(verdict.faults)
    sent, deliveries, refused, changes, retired = (
        sum(getattr(verdict, name) for verdict in verdicts)
        for name in ("sent", "deliveries", "refused", "changes", "retired")
    )
    print(
        f"{len(verdicts)} runs: {sent:,} messages, {deliveries:,} deliveries, "
        f"{refused:,} refused (the group had ended), {changes:,} changes of groups, "
        f"{retired:,} atoms retired"
    )
    for name, count in sorted(happened.items()):
        print(f"  {count:>9,} {name}")
    broken = verdicts[-1]
    if broken.anomaly is None:
        print("All invariants hold: one order, no cycle, causality, exactly once, members only.")
    else:
        print(f"Broken in the {broken.phase} phase of seed {broken.seed}:")
        for fact in (
            f"{broken.anomaly.name}:",
            *(f"  {witness}" for witness in broken.anomaly.witness),
        ):
            print(f"  {fact}")
