"""States as a checkpoint of this format has them are read, and written again to the byte.

Whoever changes what a state's text means takes the next `STATE_FORMAT`, and makes the file anew (`python -m
tests.streaming.disciplines.test_state_format`, which adds only new kinds while the file's format is read). From the
first release on the older file stays, and is read, too, or the CHANGELOG says that it is not.
"""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from streaming.arrow.totals import Totals
from streaming.disciplines.state_row import FORMATS_READ, STATE_FORMAT, StateRow
from tests.simulated.pipelines import OTHERS, PIPELINES
from tests.simulated.planting import Aim
from tests.simulated.run import run

STATES = Path(__file__).with_name("states.json")
SEED, SPAN = 9, 6.0
KINDS = {**PIPELINES, **OTHERS}


def made(known):
    """What is in the state store at the end of a history of each kind that `known` lacks, and what `known` has."""
    found = known if known["format"] in FORMATS_READ else {"format": STATE_FORMAT}
    for kind in sorted(KINDS.keys() - found.keys()):
        _, history = run(SEED, keep=(), aim=Aim(pipeline=kind, folder=False))
        shards = {
            str(key): row[0]
            for _, rows in sorted(history.storage.last_state().items())
            for key, (row, _) in sorted(rows.items())
            if row is not None
        }
        plan = history.pipeline.plan
        first = getattr(plan, "membership", b"").hex()
        found[kind] = {"shards": plan.shards, "membership": first, "states": shards}
    return found


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_state_of_this_format_is_read_and_written_again(kind):
    known = json.loads(STATES.read_text())
    assert known["format"] in FORMATS_READ, "make the file anew"
    states = known[kind]["states"]
    pipeline = KINDS[kind](random.Random(SEED), "", SPAN)
    plan = replace(pipeline.plan, shards=known[kind]["shards"])
    if first := known[kind]["membership"]:
        plan = replace(plan, membership=bytes.fromhex(first))
    operator = pipeline.operator(plan)
    assert {int(key) for key in states} <= set(operator.keys)
    for key, text in states.items():
        row = StateRow.from_text(text)
        core = operator.take(int(key), row)
        due_ms = Totals.from_json(row.totals).due_ms
        assert operator.keep(int(key), core, due_ms).to_text() == text


if __name__ == "__main__":
    STATES.write_text(json.dumps(made(json.loads(STATES.read_text())), indent=1) + "\n")
