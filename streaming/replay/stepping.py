"""Recorded input through a channel pipeline's own step, by the records' clock.

The step is the service's; a shard is one for all channels, and a batch is what came within a
while of recorded time, commands of operators before the records. Between batches timers fire when
they are due. What depends on the time (gaps, retirement) is as it would have been when the records
came.
"""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from sequencer.channels import GapFailure, Op, Skip
from sequencer.channels.rules import HELD_MAX, WINDOW_MAX, window_max
from streaming.arrow.columns import flat, last_headers
from streaming.arrow.histograms import BOUNDS, LATE_MS
from streaming.arrow.ipc import to_body, to_ipc
from streaming.arrow.key_text import word
from streaming.arrow.output import Write
from streaming.arrow.schemas import RECORD
from streaming.arrow.totals import Totals
from streaming.config.load import Config, parse_config
from streaming.disciplines.channels.commands import read_request
from streaming.disciplines.channels.core import ChannelCore
from streaming.disciplines.channels.fields import NO_SCHEMAS, fields_of, with_fields
from streaming.disciplines.channels.plan import ChannelPlan
from streaming.disciplines.channels.records import arrival_schema, labelled
from streaming.disciplines.channels.sql import header_name
from streaming.disciplines.plan import BatchContext
from streaming.errors import ConfigError, JobFailed
from streaming.kafka import topics
from streaming.kafka.registry import Registry
from streaming.replay.expressions import MADE, Expressions
from streaming.replay.recorded import InputRow, Recorded
from streaming.service.checkpoint import Identity
from streaming.service.planning import make_plan
from streaming.service.schemas import AskedSchemas
from streaming.sink.sink import Sink
from streaming.sink.writer import close_writers
from streaming.values.schemas import Schemas

WRITTEN = ("output", "rejects", "events")
FIXED = (*WRITTEN, "wanted", "progress", "input", "commands", "discipline")
"""Keys that a replay sets itself, or that both of its runs share."""
WRITE_BYTES_MIN = 4 * 2**20
LISTED = re.compile(r"(.+)\[([0-9]{1,4})\]")


class Replay:
    """One run of a plan over recorded input.

    ``writes``: whether what comes of it is written. ``ops``: the commands that count.
    """

    def __init__(
        self, plan: ChannelPlan, *, writes: bool, ops: Sequence[Op] = ChannelPlan.ops
    ) -> None:
        self.plan = replace(plan, delivery="at-least-once")
        self.writes = writes
        self.ops = ops
        self.core = ChannelCore(self.plan)
        self._kept: list[Write] = []
        self._batch = 0

    @property
    def totals(self) -> Totals:
        """What was done so far."""
        return self.core.totals

    def take(
        self,
        rows: Sequence[InputRow],
        since_ms: int,
        now_ms: int,
        asked: AskedSchemas | None = None,
    ) -> None:
        """Take what came from ``since_ms`` until ``now_ms``.

        Timers that were due before fire first, those that are due meanwhile behind it, as in a
        batch of the service's. ``asked``: schemas, where values cannot be read without.
        """
        while (due := self.core.due_ms(self.plan)) is not None:
            if due >= since_ms:
                break
            self._step([], due)
        making = partial(_packs, [row for row in rows if self._counts(row)], self.plan)
        self._step(making() if asked is None else asked(making), now_ms)

    def finish(self) -> None:
        """Write what is left to write."""
        self._write()
        if self.writes:
            close_writers()

    def _counts(self, row: InputRow) -> bool:
        """Return whether it is a record, or a command that counts."""
        if row["topic"] < len(self.plan.inputs) or self.ops == ChannelPlan.ops:
            return True
        command = read_request(row["value"]).command
        return command is not None and command.op in self.ops

    def _step(self, packs: list[bytes], now_ms: int) -> None:
        try:
            self.core.clock_ms = max(now_ms, self.core.clock_ms)
            writes = self.core.step(packs, self.plan)
        except GapFailure as gap:
            channel = word(gap.channel)
            raise JobFailed(
                f"Channel {channel} waited {gap.waited_ms} ms for label {gap.first}, and the gap "
                'policy is "fail": the service would have stopped there.',
                "The replay ended there, too.",
                "Try another policy: --set gap.policy=skip or --set gap.policy=wait.",
            ) from gap
        if self.writes:
            self._kept += writes
            if sum(table.nbytes for _, table in self._kept) > WRITE_BYTES_MIN:
                self._write()

    def _write(self) -> None:
        if not self._kept:
            return
        rows: Iterator[dict[str, Any]] = iter(
            [
                {
                    "shard": 0,
                    "topic": topic,
                    "rows": to_ipc(table),
                    "wrote_before": False,
                    "totals": "",
                }
                for topic, table in self._kept
            ]
        )
        self._kept = []
        context = BatchContext("replay", self._batch, wrote={0: self._batch - 1})
        Sink(self.plan).write(context, 0, next(rows), rows, [])
        self._batch += 1


def run(config: Config, runs: Sequence[Replay], every_ms: int) -> int:
    """Feed a pipeline's recorded input to runs, ``every_ms`` of it at a time; the records read."""
    count = 0
    asked = AskedSchemas(Registry.of(config))
    inputs = len(runs[0].plan.inputs)
    with Expressions(config) as expressions:
        recorded = iter(Recorded(config, _topics_there(config, runs[0].plan)))
        taken = expressions.each(recorded, [each.plan for each in runs])
        for number, part in groupby(taken, key=lambda each: each[0] // every_ms):
            rows = [row for _, row in part]
            count += sum(row[0]["topic"] < inputs for row in rows)
            for each, own in zip(runs, zip(*rows, strict=True), strict=True):
                each.take(own, number * every_ms, (number + 1) * every_ms, asked)
    for each in runs:
        each.finish()
    return count


def _topics_there(config: Config, plan: ChannelPlan) -> tuple[str, ...]:
    """The inputs, and the topic of commands, if Kafka has it: nobody may ever have sent one."""
    return plan.reads if plan.commands in topics.existing(config) else plan.inputs


def measuring(config: Config, name: str) -> Replay:
    """A run for its measurements alone: nothing is given up but what comes a day late.

    Of commands those count that say where labels begin.
    """
    plan = plan_of(config, name, writes=False)
    rules = replace(
        plan.rules,
        gap=Skip(BOUNDS[LATE_MS][-1]),
        held_max=HELD_MAX,
        window=min(WINDOW_MAX, window_max(plan.rules.labels.cycle)),
        ask_ms=None,
        others=(),
    )
    if rules.labels.searched:
        rules = replace(rules, window=plan.rules.window)
    return Replay(replace(plan, rules=rules), writes=False, ops=(Op.SEED, Op.RESET))


def plan_of(config: Config, name: str, *, writes: bool) -> ChannelPlan:
    """The plan of a channel pipeline with one shard."""
    settings = config.pipelines[name]
    partitions = dict.fromkeys(settings.written.values(), 1)
    if writes:
        partitions = topics.partitions(config, settings.written.values())
    plan = make_plan(config, name, Identity("channel", 1, 1), partitions)
    assert isinstance(plan, ChannelPlan)  # noqa: S101  (the caller chose a channel pipeline)
    return replace(plan, shards=1, state_partitions=1)


def changed(
    source: Path, name: str, sets: Mapping[str, str], prefix: str, environ: Mapping[str, str]
) -> Config:
    """The file's configuration with one pipeline alone, other settings, and topics of its own.

    ``sets``: values by the path of their key in the pipeline's table. ``gap.after`` where the
    policy is "wait" makes it "skip". Raises ConfigError.
    """
    tables = copy.deepcopy(tomllib.loads(source.read_text(encoding="utf-8")))
    table = tables["pipelines"][name]
    for path, text in sets.items():
        *parents, key = path.split(".")
        if path.split(".")[0] in FIXED:
            raise ConfigError(
                f"--set {path}: a replay cannot change this key.",
                "Nothing was read.",
                "It reads the pipeline's input and commands, and --prefix names what it writes.",
            )
        into = table
        for parent in parents:
            into = _table_at(into, parent)
            if not isinstance(into, dict):
                raise ConfigError(f"--set {path}: {parent} is not a table.", "Nothing was read.")
        into[key] = _value(text)
    gap = table.get("gap", {})
    if "gap.after" in sets and "gap.policy" not in sets and gap.get("policy", "wait") == "wait":
        gap["policy"] = "skip"
    table.setdefault("commands", f"{name}.commands")
    table.setdefault("input", f"{name}.in")
    names = {"output": "out"}
    table |= {role: f"{prefix}{names.get(role, role)}" for role in WRITTEN}
    table.pop("progress", None)  # marks that only the service's driver writes
    if table.get("discipline") == "channel":
        table["wanted"] = f"{prefix}wanted"
    service = {**tables.get("service", {}), "create_topics": True, "metrics": ""}
    service["name"] = f"{prefix}{service.get('name', 'sequencer')}"[-100:].lstrip("._-")
    tables |= {"service": service, "pipelines": {name: table}}
    return parse_config(tables, environ, f"{source} with --set")


def _table_at(table: dict[str, Any], name: str) -> Any:
    """The table of a name, made where there is none; ``name[0]``: the first of a list of them."""
    listed = LISTED.fullmatch(name)
    if listed is None:
        return table.setdefault(name, {})
    tables = table.get(listed[1], [])
    number = int(listed[2])
    return tables[number] if isinstance(tables, list) and number < len(tables) else None


def _value(text: str) -> Any:
    """A value as TOML has it; what is none is text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _packs(
    rows: Sequence[InputRow], plan: ChannelPlan, schemas: Schemas = NO_SCHEMAS
) -> list[bytes]:
    """The rows as the ingress would pack them for the one shard."""
    if not rows:
        return []
    added = [pa.field(name, pa.binary()) for name in MADE if name in rows[0]]
    table = pa.Table.from_pylist(list(rows), schema=pa.schema([*RECORD, *added]))
    table = with_fields(table, fields_of(plan.channel, plan.label), len(plan.inputs), schemas)
    if "channel" not in table.column_names and (name := header_name(plan.channel)):
        ((channel, _),) = last_headers(flat(table["headers"]), [name])
        table = table.append_column("channel", channel)
    table = labelled(table, arrival_schema(plan), header_name(plan.label)).combine_chunks()
    return [to_body(batch) for batch in table.to_batches()]
