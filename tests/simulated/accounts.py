"""The counts of a pipeline's shards, held against what its topics have."""

from __future__ import annotations

import json
from collections import Counter

from streaming.arrow.totals import Totals
from streaming.disciplines.state_row import StateRow


def counts_of(storage):
    """What all shards counted since the checkpoint began, as of the last batch that is done."""
    rows = [row for some in storage.last_state().values() for row, _ in some.values() if row]
    return Totals.sum(Totals.from_json(StateRow.from_text(*row).totals) for row in rows)


def miscounts(history, records):
    """Where counts differ from the topics of a history that has ended, as sentences."""
    totals, headers = counts_of(history.storage), history.pipeline.plan.headers
    events = Counter(json.loads(each.value)["event"] for each in records["events"])
    rejected = Counter(
        each.header(headers("reject-reason")).decode() for each in records["rejects"]
    )
    outputs = sum(len(records[name]) for name in history.pipeline.outputs)
    wanted = {
        "read": (totals.seen + totals.commands, len(records["in"])),
        "delivered": (totals.delivered + totals.notices, outputs),
        "rejected": ({reason: n for reason, n in totals.rejected.items() if n}, {**rejected}),
        "undelivered": (totals.undelivered, events["undelivered"]),
        "in transit": (totals.transit, 0),
    }
    if history.pipeline.plan.discipline == "channel":
        ends = totals.delivered + sum(rejected.values()) + totals.dropped + totals.held
        wanted["gone on"] = (totals.seen, ends)
        wanted["gaps"] = (totals.gaps, events["gap"])
    return [
        f"{name}: {counted} are counted, and there are {there}"
        for name, (counted, there) in wanted.items()
        if counted != there
    ]
