"""Reading a configuration's topics and judging every pipeline."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Self

from sequencer.channels import Rules
from streaming.config import Config
from streaming.disciplines.channels.fields import fields_of
from streaming.disciplines.channels.settings import ChannelPipeline
from streaming.disciplines.channels.sql import has_sql, header_name
from streaming.disciplines.groups.settings import GroupPipeline
from streaming.disciplines.label.settings import LabelPipeline
from streaming.disciplines.multicast.settings import MulticastPipeline
from streaming.errors import ConfigError
from streaming.kafka.registry import Registry
from streaming.verify import channel, group, multicast, origins
from streaming.verify.accounts import Material, Settings
from streaming.verify.channel_parts import Feed, judge_in_parts, parts_for
from streaming.verify.channel_readings import GapTime
from streaming.verify.commands import read_command
from streaming.verify.faults import Verdict
from streaming.verify.group_deliveries import SUBSCRIBER
from streaming.verify.inputs import Ends
from streaming.verify.marks import Marks
from streaming.verify.memberships import OPS
from streaming.verify.origins import Naming, Origins
from streaming.verify.records import Record, Topics
from streaming.verify.settling import Later
from streaming.verify.values import Registered

RELOOK_SECONDS = 1.0
"""Between two looks, and, in the second one, between the outputs and their rejects and events."""
SAID_SECONDS = 30.0
"""Between two lines about what is done, where nobody looks at a terminal."""
OF_CHANNELS = frozenset(
    {
        "lost", "unanswered", "wrong-count", "wrong-after", "wrong-notice",
        # A batch in parts shows deliveries before rejects, and both before events.
        "unannounced-gap", "unannounced-start", "wrong-reason", "wrong-gap", "unfounded-gap",
    }
)  # fmt: skip
OF_COMMANDS = frozenset(
    {
        "unfinished", "unanswered", "missing-event", "wrong-answer", "bad-cause", "wrong-reason",
        # Until rejects and events are there: what was refused, and what commands did.
        "lost", "missing-delivery", "membership", "wrong-notice", "sender-order",
    }
)  # fmt: skip
OF_GROUPS = OF_COMMANDS | {
    "wrong-version", "wrong-event", "invented-event", "wrong-stamps", "overlap-start",
    "overlap-order",
}  # fmt: skip
OF_NODES = OF_COMMANDS | {
    "delivered-after-destruction", "undelivered-before-destruction", "wrong-undelivered",
    "wrong-handles", "missing-notice",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Subject:
    """What is to be judged: a pipeline of a configuration, by its topics.

    ``due``: how far inputs and commands must be worked through by now. ``cause_header``: see
    `Settings`. ``settle_s``: see `Later`.
    """

    config: Config
    name: str
    topics: Topics
    due: Ends
    cause_header: str
    settle_s: float = 0.0

    @property
    def settings(self) -> Any:
        """The pipeline's settings."""
        return self.config.pipelines[self.name]


@dataclass(frozen=True, slots=True)
class Judge:
    """How a discipline is judged; apart from the discipline's own record, which it may not trust.

    ``judge`` gives the verdict, and how far inputs and commands were read. ``not_yet``: faults that
    a running service may still mend.
    """

    judge: Callable[[Subject], tuple[Verdict, Ends]]
    not_yet: frozenset[str]


def verify(
    config: Config, names: list[str], wait_s: float, cause_header: str = ""
) -> list[Verdict]:
    """Judge pipelines; what is only missing yet gets ``wait_s`` seconds to appear.

    ``cause_header``: see `Settings`.
    """
    with Topics(config, _Showing()) as topics:
        asked = [Subject(config, name, topics, None, cause_header) for name in names]
        return [_judge_in_time(each, wait_s) for each in asked]


def _judge_in_time(asked: Subject, wait_s: float) -> Verdict:
    of = JUDGES.get(asked.settings.discipline)
    if of is None:
        what = asked.settings.discipline
        raise ConfigError(
            f"pipelines.{asked.name}: verify cannot judge {what!r}.",
            "Nothing was judged.",
            "Leave this pipeline out (--pipeline names the others).",
        )
    deadline = None
    while True:
        verdict, ends = of.judge(asked)
        now = time.monotonic()
        deadline = now + wait_s if deadline is None else deadline
        if not verdict.counts or set(verdict.counts) - of.not_yet or now >= deadline:
            return verdict
        due = ends if asked.due is None else asked.due  # what came later is given its time, too
        settle_s = min(wait_s, asked.settle_s * 2 or RELOOK_SECONDS)
        asked = replace(asked, due=due, settle_s=settle_s)
        time.sleep(RELOOK_SECONDS)


def _judge_group(asked: Subject) -> tuple[Verdict, Ends]:
    pipeline, topics = asked.settings, asked.topics
    reading = _Reading(topics, Extras(asked, origins.of_group), asked.settle_s)
    outputs = _outputs(pipeline, topics)
    settings = group.GroupSettings(
        **_common(asked, outputs),
        groups={each: frozenset(members) for each, members in pipeline.groups.items()},
        across_groups=pipeline.across_groups,
        by_batch=pipeline.sequencing == "batch",
        stamps=pipeline.stamps,
    )
    verdict = group.judge(settings, Material(*reading.of(pipeline, outputs)))
    reading.extras.finish(verdict)
    return verdict, reading.ends


def _judge_multicast(asked: Subject) -> tuple[Verdict, Ends]:
    extras = Extras(asked, origins.of_multicast)
    reading = _Reading(asked.topics, extras, asked.settle_s)
    outputs = [asked.settings.output]
    settings = Settings(**_common(asked, outputs))
    verdict = multicast.judge(settings, Material(*reading.of(asked.settings, outputs)))
    reading.extras.finish(verdict)
    return verdict, reading.ends


def _common(asked: Subject, outputs: list[str]) -> dict[str, Any]:
    service = asked.config.service
    return {
        "pipeline": asked.name,
        "output": asked.settings.output,
        "partitions": {topic: asked.topics.partitions(topic) for topic in outputs},
        "header_prefix": service.header_prefix,
        "repeats_allowed": service.delivery == "at-least-once",
        "retire_after_ms": asked.settings.retire_after.ms,
        "now_ms": int(time.time() * 1000),
        "due": asked.due,
        "cause_header": asked.cause_header,
        "input_commands": asked.settings.input_commands,
        "progress": asked.topics.progress,
    }


class Extras:
    """What any discipline may have besides: origins of deliveries, and progress marks.

    Marks are read first: what they promise is there by then.
    """

    def __init__(self, asked: Subject, naming: Naming) -> None:
        service, settings, topics = asked.config.service, asked.settings, asked.topics
        self.origins = Origins(service.header_prefix, naming)
        is_repeating = service.delivery == "at-least-once"
        self.marks = Marks(service.header_prefix, naming, first=is_repeating)
        if settings.progress:
            found = list(topics.each(settings.progress))
            self.marks.read(found, topics.ends(settings.input))

    def anew(self) -> Self:
        """Return others with the same marks, for records that are judged by themselves."""
        found = copy(self)
        found.origins = Origins(self.origins.prefix, self.origins.naming)
        found.marks = self.marks.anew()
        return found

    def taken(self, outputs: Iterable[Record]) -> Iterator[Record]:
        """The deliveries without what is judged here."""
        return self.marks.taken(self.origins.taken(outputs))

    def held_against(self, inputs: Iterable[Record]) -> Iterator[Record]:
        """The inputs as they are."""
        return self.marks.held_against(self.origins.held_against(inputs))

    def finish(self, verdict: Verdict) -> None:
        """Report what was found, after all inputs."""
        self.origins.finish(verdict)
        self.marks.finish(verdict)


class _Reading:
    """The topics of a pipeline, read one after the other as the judge asks for them."""

    def __init__(self, topics: Topics, extras: Extras, settle_s: float) -> None:
        self.topics = topics
        self.later = Later(topics, settle_s)
        self.extras = extras
        self.ends: dict[tuple[str, int], int] = {}

    def of(
        self, pipeline: GroupPipeline | MulticastPipeline, outputs: list[str]
    ) -> Iterator[Iterable[Record]]:
        """Outputs, rejects, events, commands, inputs; nothing is read yet.

        Outputs before inputs: what a running service writes meanwhile then has its input read too.
        """
        each = self.topics.each
        yield self.extras.taken(chain.from_iterable(map(each, outputs)))
        yield self.later.rejects(pipeline.rejects)
        yield self.later.events(pipeline.events)
        yield self._noted([pipeline.commands])
        yield self.extras.held_against(self._noted(sorted(pipeline.input)))

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
    for topic in pipeline.input if pipeline.input_commands else ():
        for record in topics.each(topic):
            asked = (record.header("op") or b"").decode(errors="replace")
            if asked in pipeline.input_commands:
                members.update(read_command(record, OPS, asked).others)
    named = {pipeline.output.replace(SUBSCRIBER, member) for member in members}
    return sorted(topic for topic in named if topics.partitions(topic))


def _judge_channel(asked: Subject) -> tuple[Verdict, Ends]:
    config, name, topics = asked.config, asked.name, asked.topics
    pipeline: ChannelPipeline | LabelPipeline = asked.settings
    if has_sql(pipeline.channel, pipeline.label):
        raise ConfigError(
            f"pipelines.{name}: verify reads channel and label from the key, header('…') and "
            "fields of the value only, not from other SQL expressions.",
            "Nothing was judged.",
            "Leave this pipeline out (--pipeline names the others).",
        )
    fields = fields_of(pipeline.channel, pipeline.label)
    with config.faults_of(name):
        rules = pipeline.all_rules()
    settings = channel.ChannelSettings(
        pipeline=name,
        labels=rules.labels,
        window=rules.window,
        channel_header=header_name(pipeline.channel),
        label_header=header_name(pipeline.label),
        channel_field=fields.get("channel"),
        label_field=fields.get("label"),
        registered=Registered(Registry.of(config) if pipeline.needs_registry else None),
        header_prefix=config.service.header_prefix,
        drop_duplicates=pipeline.duplicates == "drop",
        repeats_allowed=config.service.delivery == "at-least-once",
        output_partitions=max(1, topics.partitions(pipeline.output)),
        held_max=rules.held_max,
        pass_unlabelled=rules.pass_unlabelled,
        gives_labels=pipeline.discipline == "label",
        input_commands=getattr(pipeline, "input_commands", ()),
        first_seen=rules.settle_ms is not None,
        rules=tuple(
            channel.ChannelRule(
                glob, each.window, each.held_max, each.drop_duplicates, _gap_time(each)
            )
            for glob, each in rules.others
        ),
        gap=_gap_time(rules),
    )
    read = {*pipeline.input, pipeline.output, pipeline.rejects, pipeline.events}
    count = parts_for(sum(map(topics.count, read)))
    naming = origins.of_label if settings.gives_labels else origins.of_channel
    extras = Extras(asked, naming)
    verdict, ends = judge_in_parts(
        settings, _feed(asked), count, asked.due, extras.anew, topics.progress
    )
    extras.finish(verdict)
    return verdict, ends


def _gap_time(rules: Rules) -> GapTime:
    """Return how long gaps are waited for until labels are given up."""
    if rules.gap.word != "skip":
        return GapTime(None, None)
    after_ms, by = rules.gap.after_ms, rules.gap.by
    return GapTime(after_ms if by is None else by.least_ms, after_ms)


def _feed(asked: Subject) -> Feed:
    """Outputs come before inputs: what is written meanwhile then has its input read, too."""
    pipeline: ChannelPipeline | LabelPipeline = asked.settings
    each, wanted = asked.topics.each, pipeline.written.get("wanted")
    later = Later(asked.topics, asked.settle_s)
    return Feed(
        outputs=each(pipeline.output),
        rejects=later.rejects(pipeline.rejects),
        events=later.events(pipeline.events),
        commands=each(pipeline.commands),
        wanted=each(wanted) if wanted else (),
        inputs=chain.from_iterable(map(each, sorted(pipeline.input))),
    )


JUDGES = {
    **dict.fromkeys(("channel", "label"), Judge(_judge_channel, OF_CHANNELS)),
    "group": Judge(_judge_group, OF_GROUPS),
    "multicast": Judge(_judge_multicast, OF_NODES),
}


class _Showing:
    """Says how far reading and judging are: in place on a terminal, else a line now and then."""

    def __init__(self) -> None:
        self.said_at = time.monotonic()

    def __call__(self, what: str, count: int, total: int) -> None:
        text = f"{what}: {count:,} of {total:,}"
        if sys.stderr.isatty():
            print(f"\r  {text} ", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self.said_at >= SAID_SECONDS:
            self.said_at = time.monotonic()
            print(text, file=sys.stderr, flush=True)
