"""No label is given up for its time that a batch could have read by then, but after long waits."""

from __future__ import annotations

import json
import re
from datetime import datetime

from sequencer.channels.rules import BEHIND_TIMES
from tests.simulated.world import BEGAN_MS

OTHERWISE = re.compile("clock|leader|broker|lost|gone|deleted|made again|compacted|restored|copy")
"""Behind such faults the service's time, or the ends that it sees, are not those of the judge."""


def unread_faults(history, records):
    """What was given up for its time, and rejected as late, though it had come before that."""
    after_ms = history.pipeline.plan.rules.gap.after_ms
    if after_ms is None or any(OTHERWISE.search(text) for _, (text, _) in history.faults):
        return []
    came_ms = {
        value: BEGAN_MS + moment * 1000
        for moment, topic, _, sent in history.pipeline.sends
        for _, _, value, _ in sent
        if topic == "in"
    }
    over_ms = {}
    for event in (json.loads(each.value) for each in records["events"]):
        if event["event"] == "gap" and event["reason"] == "timeout":
            at_ms = datetime.fromisoformat(event["at"]).timestamp() * 1000
            if event["waited_ms"] < BEHIND_TIMES * after_ms:
                over_ms[event["id"].encode()] = at_ms - event["waited_ms"] + after_ms
    name = history.pipeline.plan.headers("reject-gap")
    late = [each for each in records["rejects"] if each.header(name) in over_ms]
    return [
        f"{each.value.decode()} was given up {over_ms[each.header(name)] - came_ms[each.value]:.0f} "
        "ms after it had come, unread"
        for each in late
        if came_ms[each.value] < over_ms[each.header(name)]
    ]
