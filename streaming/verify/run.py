"""Reading a configuration's topics and judging every pipeline."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from streaming.config import Config
from streaming.disciplines.channels.pack import header_name
from streaming.disciplines.channels.settings import ChannelPipeline
from streaming.disciplines.groups.settings import GroupPipeline
from streaming.disciplines.multicast.settings import MulticastPipeline
from streaming.errors import ConfigError
from streaming.verify import channel, group, multicast
from streaming.verify.accounts import Material, Settings
from streaming.verify.commands import read_command
from streaming.verify.faults import Verdict
from streaming.verify.group_deliveries import SUBSCRIBER
from streaming.verify.inputs import Ends
from streaming.verify.memberships import OPS
from streaming.verify.records import Record, Topics

RELOOK_SECONDS = 1.0
_OF_EXCHANGES = {"unfinished", "missing-event", "unanswered", "bad-cause"}
NOT_YET = {"channel": {"lost"}, "group": _OF_EXCHANGES, "multicast": _OF_EXCHANGES}
"""Faults by discipline that a running service may still mend."""


def verify(
    config: Config, names: list[str], wait_s: float, cause_header: str = ""
) -> list[Verdict]:
    """Judge pipelines; what is only missing yet gets ``wait_s`` seconds to appear.

    ``cause_header``: see `Settings`.
    """
    verdicts = []
    with Topics(config, _show) as topics:
        for name in names:
            discipline = config.pipelines[name].discipline
            due: Ends = None
            deadline = None
            while True:
                verdict, ends = _judge(config, name, topics, due, cause_header)
                now = time.monotonic()
                deadline = now + wait_s if deadline is None else deadline
                if not verdict.counts or set(verdict.counts) - NOT_YET[discipline]:
                    break
                if now >= deadline:
                    break
                due = ends if due is None else due  # what came later is given its time, too
                time.sleep(RELOOK_SECONDS)
            verdicts.append(verdict)
    return verdicts


def _judge(
    config: Config, name: str, topics: Topics, due: Ends, cause_header: str
) -> tuple[Verdict, Ends]:
    """The verdict, and how far inputs and commands were read."""
    pipeline = config.pipelines[name]
    if isinstance(pipeline, ChannelPipeline):
        return _judge_channel(config, name, pipeline, topics), {}
    reading = _Reading(topics)
    common: dict[str, Any] = {
        "pipeline": name,
        "output": pipeline.output,
        "header_prefix": config.service.header_prefix,
        "repeats_allowed": config.service.delivery == "at-least-once",
        "retire_after_ms": pipeline.retire_after.ms,
        "now_ms": int(time.time() * 1000),
        "due": due,
        "cause_header": cause_header,
    }
    if isinstance(pipeline, GroupPipeline):
        outputs = _outputs(pipeline, topics)
        given = group.Settings(
            **common,
            partitions={topic: topics.partitions(topic) for topic in outputs},
            groups={each: frozenset(members) for each, members in pipeline.groups.items()},
            across_groups=pipeline.sender_order == "across-groups",
        )
        return group.judge(given, Material(*reading.of(pipeline, outputs))), reading.ends
    if isinstance(pipeline, MulticastPipeline):
        outputs = [pipeline.output]
        partitions = {topic: topics.partitions(topic) for topic in outputs}
        of = Settings(**common, partitions=partitions)
        found = multicast.judge(of, Material(*reading.of(pipeline, outputs)))
        return found, reading.ends
    raise ConfigError(f"pipelines.{name}: verify cannot judge {pipeline.discipline!r}.")


class _Reading:
    """The topics of a pipeline, read one after the other as the judge asks for them."""

    def __init__(self, topics: Topics) -> None:
        self.topics = topics
        self.ends: dict[tuple[str, int], int] = {}

    def of(
        self, pipeline: GroupPipeline | MulticastPipeline, outputs: list[str]
    ) -> Iterator[Iterable[Record]]:
        """Outputs, rejects, events, commands, inputs; nothing is read yet.

        Outputs before inputs: what a running service writes meanwhile then has its input read too.
        """
        each = self.topics.each
        yield chain.from_iterable(map(each, outputs))
        yield each(pipeline.rejects)
        yield each(pipeline.events)
        yield self._noted([pipeline.commands])
        yield self._noted(sorted(pipeline.input))

    def _noted(self, topics: list[str]) -> Iterator[Record]:
        for record in chain.from_iterable(map(self.topics.each, topics)):
            self.ends[record.topic, record.partition] = record.offset + 1
            yield record


def _outputs(pipeline: GroupPipeline, topics: Topics) -> list[str]:
    """The output topics: one, or one for each subscriber that was ever named."""
    if SUBSCRIBER not in pipeline.output:
        return [pipeline.output]
    members = set(pipeline.subscribers())
    for record in topics.each(pipeline.commands):
        members.update(read_command(record, OPS).others)
    named = {pipeline.output.replace(SUBSCRIBER, member) for member in members}
    return sorted(topic for topic in named if topics.partitions(topic))


def _judge_channel(config: Config, name: str, pipeline: ChannelPipeline, topics: Topics) -> Verdict:
    key, label = header_name(pipeline.channel), header_name(pipeline.label)
    if label is None or (key is None and pipeline.channel != "key"):
        raise ConfigError(
            f"pipelines.{name}: verify reads channel and label from key and header('…') only, not "
            "from other SQL expressions.",
            "Nothing was judged.",
            "Leave this pipeline out (--pipeline names the others).",
        )
    with config.faults_of(name):
        rules = pipeline.rules()
    # Outputs before inputs: what a running service writes meanwhile then has its input read too.
    outputs, partitions = topics.read(pipeline.output)
    rejects, _ = topics.read(pipeline.rejects)
    events, _ = topics.read(pipeline.events)
    inputs = [record for topic in sorted(pipeline.input) for record in topics.read(topic)[0]]
    settings = channel.Settings(
        pipeline=name,
        labels=rules.labels,
        window=rules.window,
        channel_header=key,
        label_header=label,
        header_prefix=config.service.header_prefix,
        drop_duplicates=pipeline.duplicates == "drop",
        repeats_allowed=config.service.delivery == "at-least-once",
        output_partitions=max(1, partitions),
        held_max=rules.held_max,
    )
    return channel.judge(settings, channel.Material(inputs, outputs, rejects, _parsed(events)))


def _parsed(events: list[Any]) -> list[dict[str, Any]]:
    return [json.loads(record.value) for record in events if record.value]


def _show(topic: str, count: int) -> None:
    if sys.stderr.isatty():
        print(f"\r  reading {topic}: {count:,} ", end="", file=sys.stderr, flush=True)
