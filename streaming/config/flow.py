"""How pipelines and topics hang together: nobody writes where another does, and no circles."""

from __future__ import annotations

import graphlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from streaming.disciplines import DISCIPLINES
from streaming.settings.values import SUBSCRIBER, key_path

WRITTEN = ("output", "rejects", "events", "transit", "wanted", "progress")
DEFAULTS = {"input": "in", "output": "out"}


@dataclass(frozen=True, slots=True)
class Use:
    """One pipeline's use of one topic."""

    pipeline: str
    role: str
    topic: str

    @property
    def path(self) -> str:
        """The key that says so."""
        return key_path(["pipelines", self.pipeline, self.role])


def topic_faults(tables: dict[str, Any]) -> list[str]:
    """What is wrong with the topics of the pipelines, given as parsed TOML.

    Works with what can be read, so that these faults come along with others.
    """
    uses = [use for name, table in tables.items() for use in _uses(name, table)]
    return [*_clashes(uses), *_lookalikes(uses), *_circles(uses)]


def label_faults(pipelines: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Channel pipelines that could not go on with the labels that another pipeline gives."""
    given = _labelled(pipelines)
    for path, source, longer_ms in _memories(pipelines):
        if longer_ms < 0:
            yield (
                f"{path}: is shorter than that of {source}, which would go on with labels of "
                "channels that are forgotten here; make it longer"
            )
    for name, each in pipelines.items() if prefix else ():
        for topic in each.input if each.discipline == "channel" else ():
            if topic not in given:
                continue
            source = key_path(["pipelines", given[topic]])
            yield (
                f"{key_path(['pipelines', name, 'input'])}: {topic} has its epochs from "
                f"{source} as the header {prefix}epoch, and a channel pipeline reads epoch; "
                "leave service.header_prefix out"
            )


def label_remarks(pipelines: Mapping[str, Any]) -> list[str]:
    """Channel pipelines that may forget a channel just before it goes on, one line each."""
    return [
        f"{path} is as long as that of {source}. A channel whose messages come just that long "
        "apart may be forgotten here alone, and then waits for its first label; make it longer."
        for path, source, longer_ms in _memories(pipelines)
        if longer_ms == 0
    ]


def _memories(pipelines: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """By how much longer (ms) channel pipelines remember than what gives their labels.

    With the path of each ``retire_after``, and of the pipeline that gives the labels.
    """
    given = _labelled(pipelines)
    for name, each in pipelines.items():
        for topic in each.input if each.discipline == "channel" else ():
            if topic not in given:
                continue
            source, first_ms = given[topic], pipelines[given[topic]].retire_after.ms
            rules = [(("rules", at), rule.retire_after) for at, rule in enumerate(each.rules)]
            for at, after in [((), each.retire_after), *rules]:
                if after is not None:
                    path = key_path(["pipelines", name, *at, "retire_after"])
                    yield path, key_path(["pipelines", source]), after.ms - first_ms


def _labelled(pipelines: Mapping[str, Any]) -> dict[str, str]:
    """Return the topics with labels of a ``label`` pipeline, and whose they are.

    Channel pipelines pass them on; of several, those that are remembered longest count.
    """
    given = {each.output: name for name, each in pipelines.items() if each.discipline == "label"}
    passing = [each for each in pipelines.values() if each.discipline == "channel"]
    for _ in passing:  # as long as a chain can be
        for each in passing:
            sources = [given[topic] for topic in (each.output, *each.input) if topic in given]
            if sources:
                longest = max(sources, key=lambda name: pipelines[name].retire_after.ms)
                given[each.output] = longest
    return given


def _uses(name: str, table: Any) -> Iterator[Use]:
    known = DISCIPLINES.get(str(table.get("discipline"))) if isinstance(table, dict) else None
    if known is None:
        return
    for role in ("input", "commands", *WRITTEN):
        if role not in known.settings.model_fields:
            continue
        if role == "transit" and not known.settings.exchanges(table):
            continue
        default = f"{name}.{DEFAULTS.get(role, role)}"
        topics = table.get(role, None if role == "progress" else default)
        if topics is True:  # as progress may be; false and "" stand for none
            topics = default
        for topic in topics if isinstance(topics, list) else [topics]:
            if isinstance(topic, str) and topic:
                for expanded in _expanded(topic, table):
                    yield Use(name, role, expanded)


def _expanded(topic: str, table: dict[str, Any]) -> list[str]:
    """The topics that a name with ``{subscriber}`` stands for, as far as members are known.

    The name itself stands for those of members to come.
    """
    groups = table.get("groups")
    if SUBSCRIBER not in topic:
        return [topic]
    members = groups.values() if isinstance(groups, dict) else []
    all_of = chain.from_iterable(each for each in members if isinstance(each, list))
    names = {each for each in all_of if isinstance(each, str)}
    return [topic, *(topic.replace(SUBSCRIBER, each) for each in sorted(names))]


def _clashes(uses: list[Use]) -> Iterator[str]:
    """Topics used by two who cannot share them."""
    seen: dict[str, list[Use]] = {}
    for use in uses:
        clash = next(
            (earlier for earlier in seen.get(use.topic, []) if not _share(earlier, use)), None
        )
        if clash is not None:
            yield f"{use.path}: {use.topic} is {clash.path} already; use another topic"
        seen.setdefault(use.topic, []).append(use)


def _share(one: Use, other: Use) -> bool:
    """Return whether two may use the same topic: readers may, and a reader and another's writer."""
    roles = {one.role, other.role}
    if one.pipeline == other.pipeline:
        return roles == {"input"}  # a topic that is named twice is another fault
    if "transit" in roles or roles == {"commands"}:
        return False
    if "commands" in roles:
        return bool(roles & {"input", "output"})
    return "input" in roles


def _lookalikes(uses: list[Use]) -> Iterator[str]:
    """Names that differ in '.' and '_' alone: Kafka's metrics take them for one."""
    seen: dict[str, Use] = {}
    for use in uses:
        known = seen.setdefault(use.topic.replace(".", "_"), use)
        if known.topic != use.topic:
            yield (
                f"{use.path}: Kafka does not take {use.topic} beside {known.topic} ({known.path}), "
                "because '.' and '_' count as equal; use another name"
            )


def _circles(uses: list[Use]) -> Iterator[str]:
    """Pipelines that feed each other."""
    before: dict[str, set[str]] = {}
    for reader in uses:
        sources = before.setdefault(reader.pipeline, set())
        if reader.role in ("input", "commands"):
            sources.update(
                writer.pipeline
                for writer in uses
                if writer.role in WRITTEN
                and writer.topic == reader.topic
                and writer.pipeline != reader.pipeline
            )
    while True:
        try:
            graphlib.TopologicalSorter(before).prepare()
        except graphlib.CycleError as error:
            circle: list[str] = error.args[1]
        else:
            return
        yield (
            f"{key_path(['pipelines', circle[1], 'input'])}: the pipelines {' → '.join(circle)} "
            "feed each other in a circle; let one of them read another topic"
        )
        before[circle[1]].discard(circle[0])
