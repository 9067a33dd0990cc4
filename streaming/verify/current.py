"""Groups and nodes of a pipeline at present: read from its topics, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from streaming.arrow.json_object import object_in
from streaming.service.checkpoint import Checkpoint
from streaming.verify.records import Topics

if TYPE_CHECKING:
    from streaming.config import Config

CREATED, DESTROYED = "create-node", "destroy-node"
PLACE = {"at": str, "topic": str, "partition": int, "offset": int}
FIELDS = {CREATED: {**PLACE, "node": str, "owner": str}, DESTROYED: {**PLACE, "node": str}}
"""Of the commands that create or destroy a node: the fields of their answers."""


@dataclass(slots=True)
class Listed:
    """A group's version, None where no event has named it yet, and its members in order."""

    version: int | None
    members: list[str]


def now(config: Config, name: str) -> dict[str, Listed]:
    """Return the groups of a pipeline."""
    groups = first(config, name)
    with Topics(config, lambda *_: None) as topics:
        for record in topics.each(config.pipelines[name].events):
            follow(groups, object_in(record.value) or {})
    return groups


def first(config: Config, name: str) -> dict[str, Listed]:
    """Return the groups that a pipeline began with.

    A checkpoint's first membership counts more than the configuration's, as in the service.
    """
    pipeline = config.pipelines[name]
    pinned = Checkpoint.of(config, name).identity()
    members_of = pinned.own["groups"] if pinned is not None else pipeline.groups
    begun = 0 if pipeline.transit_topic is None else None
    return {group: Listed(begun, sorted(members)) for group, members in members_of.items()}


def messages(config: Config, name: str) -> Counter[str]:
    """Return how many messages a pipeline's inputs have for each group that they name."""
    counts: Counter[str] = Counter()
    with Topics(config, lambda *_: None) as topics:
        for topic in config.pipelines[name].input:
            for record in topics.each(topic):
                group = record.header("group")
                counts[(group or b"").decode(errors="replace")] += 1
    return counts


def numbers(config: Config, name: str) -> dict[tuple[str, str], int]:
    """Return the next numbers of overlaps, as far as the status of the last batch lists them."""
    shards = Checkpoint.of(config, name).status().get("shards", {}).values()
    listed = [each for shard in shards for each in shard["overlaps"]]
    return {(one, other): number for one, other, number in listed}


def nodes(config: Config, name: str) -> dict[str, str]:
    """Return the nodes of a pipeline with their owners."""
    pipeline = config.pipelines[name]
    with Topics(config, lambda *_: None) as topics:
        events = [object_in(each.value) or {} for each in topics.each(pipeline.events)]
    owners: dict[str, str] = {}
    for event in _in_order(events, pipeline.commands):
        if event["op"] == CREATED:
            owners[event["node"]] = event["owner"]
        else:
            owners.pop(event["node"], None)
    return owners


def _in_order(events: Iterable[dict[str, Any]], commands: str) -> list[dict[str, Any]]:
    """Creations and destructions that were done, as they took effect.

    Answers lie in any partition; those of a batch have one time, and its commands come first. What
    lies in one partition took effect in its order, also where the clock was set back.
    """
    latest: dict[tuple[str, int], str] = {}
    ordered = []
    place = itemgetter("topic", "partition", "offset")
    for event in sorted(filter(_is_done, events), key=place):
        home = event["topic"], event["partition"]
        latest[home] = max(event["at"], latest.get(home, ""))
        ordered.append((latest[home], event["topic"] != commands, place(event), event))
    return [event for *_, event in sorted(ordered, key=itemgetter(0, 1, 2))]


def _is_done(event: dict[str, Any]) -> bool:
    """Whether an event says that a node was created or destroyed; others may write there, too."""
    fields = FIELDS.get(str(event.get("op")))
    if event.get("event") != "command-done" or fields is None:
        return False
    return all(isinstance(event.get(field), kind) for field, kind in fields.items())


def follow(groups: dict[str, Listed], event: dict[str, Any]) -> None:
    """Do to groups what an event says of one; a group's events lie in one partition.

    Pass over what no pipeline wrote: others may write to the topic, too.
    """
    kind, name = event.get("event"), str(event.get("group"))
    if kind == "group-removed":
        groups.pop(name, None)
    elif not _is_readable(event):
        return
    elif kind == "group-moved" and name in groups:
        groups[name].version = event["version"]
    elif kind in ("group-added", "group-changed"):
        members = set(groups[name].members) if name in groups else set()
        members = set(event["members"]) if "members" in event else members
        members = (members | {*_one(event, "joined")}) - {*_one(event, "left")}
        groups[name] = Listed(event["version"], sorted(members))


def _is_readable(event: dict[str, Any]) -> bool:
    """Whether an event has a version, and its members, if any, are names."""
    listed, lone = event.get("members", []), [*_one(event, "joined"), *_one(event, "left")]
    names = [*listed, *lone] if isinstance(listed, list) else [None]
    return isinstance(event.get("version"), int) and all(isinstance(each, str) for each in names)


def _one(event: dict[str, Any], field: str) -> list[str]:
    return [event[field]] if field in event else []
