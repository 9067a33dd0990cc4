"""Reading a configuration's topics and judging every pipeline."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from streaming.config import ChannelPipeline, Config
from streaming.errors import ConfigError
from streaming.pack import header_name
from streaming.verify.channel import Material, Settings, judge
from streaming.verify.faults import Verdict
from streaming.verify.records import Topics

RELOOK_SECONDS = 1.0


def verify(config: Config, names: list[str], wait_s: float) -> list[Verdict]:
    """Judge pipelines; what is only missing yet gets ``wait_s`` seconds to appear."""
    verdicts = []
    with Topics(config, _show) as topics:
        for name in names:
            deadline = time.monotonic() + wait_s
            while True:
                verdict = _judge(config, name, topics)
                if set(verdict.counts) != {"lost"} or time.monotonic() > deadline:
                    break
                time.sleep(RELOOK_SECONDS)
            verdicts.append(verdict)
    return verdicts


def _judge(config: Config, name: str, topics: Topics) -> Verdict:
    pipeline = config.pipelines[name]
    if not isinstance(pipeline, ChannelPipeline):
        raise ConfigError(f"pipelines.{name}: verify cannot judge {pipeline.discipline!r} yet.")
    channel, label = header_name(pipeline.channel), header_name(pipeline.label)
    if label is None or (channel is None and pipeline.channel != "key"):
        raise ConfigError(
            f"pipelines.{name}: verify reads channel and label from key and header('…') only, not "
            "from other SQL expressions.",
            "Nothing was judged.",
            "Leave this pipeline out (--pipeline names the others).",
        )
    rules = config.rules(name)
    # Outputs before inputs: what a running service writes meanwhile then has its input read too.
    outputs, partitions = topics.read(pipeline.output)
    rejects, _ = topics.read(pipeline.rejects)
    events, _ = topics.read(pipeline.events)
    inputs = [record for topic in sorted(pipeline.input) for record in topics.read(topic)[0]]
    settings = Settings(
        pipeline=name,
        labels=rules.labels,
        window=rules.window,
        channel_header=channel,
        label_header=label,
        header_prefix=config.service.header_prefix,
        drop_duplicates=pipeline.duplicates == "drop",
        repeats_allowed=config.service.delivery == "at-least-once",
        output_partitions=max(1, partitions),
    )
    return judge(settings, Material(inputs, outputs, rejects, _parsed(events)))


def _parsed(events: list[Any]) -> list[dict[str, Any]]:
    return [json.loads(record.value) for record in events if record.value]


def _show(topic: str, count: int) -> None:
    if sys.stderr.isatty():
        print(f"\r  reading {topic}: {count:,} ", end="", file=sys.stderr, flush=True)
