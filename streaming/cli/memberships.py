"""What became of a pipeline's groups: read from its topics, for `sequencer graph --running`."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from streaming.service.checkpoint import Checkpoint
from streaming.verify.records import Topics

if TYPE_CHECKING:
    from streaming.config import Config

CHANGED = ("group-added", "group-changed")


def now(config: Config, name: str) -> tuple[dict[str, list[str]], dict[str, int]]:
    """The groups of a pipeline with their members, and how many messages each had.

    A checkpoint's first membership counts more than the configuration's, as in the service.
    """
    pipeline = config.pipelines[name]
    pinned = Checkpoint.of(config, name).identity()
    first = pinned.own["groups"] if pinned is not None else pipeline.groups
    groups = {group: list(members) for group, members in first.items()}
    messages: Counter[str] = Counter()
    with Topics(config, lambda _topic, _count: None) as topics:
        for record in topics.each(pipeline.events):  # a group's events lie in one partition
            event = json.loads(record.value or b"{}")
            if event.get("event") in CHANGED:
                groups[event["group"]] = event["members"]
            elif event.get("event") == "group-removed":
                groups.pop(event["group"], None)
        for topic in pipeline.input:
            for record in topics.each(topic):
                _, group = record.header("group")
                messages[(group or b"").decode(errors="replace")] += 1
    return groups, {group: messages[group] for group in groups}
