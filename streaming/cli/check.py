"""`sequencer check`: is the configuration sound?"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer


def check(
    config: Annotated[Path, typer.Argument(help="The service's TOML file.")],
    as_json: Annotated[bool, typer.Option("--json", help="What was understood, as JSON.")] = False,
) -> None:
    """Check CONFIG without Kafka or Spark, and show what was understood.

    Every fault is named with its key, what is wrong and what to write instead. Functions of custom
    labels are imported and tried.

    Exit status: 0 it can work; 2 it cannot.

    Example: sequencer check orders.toml
    """
    from streaming import kafka  # noqa: PLC0415  (a quick --help)
    from streaming.config import ChannelPipeline, load_config  # noqa: PLC0415

    settings = load_config(config)
    kafka.java(settings)
    kafka.confluent(settings)
    understood: dict[str, Any] = {
        "service": settings.service.model_dump(mode="json"),
        "kafka": {
            "bootstrap_servers": settings.kafka.bootstrap_servers,
            "properties": sorted(settings.kafka.properties),  # names only: values may be secret
        },
        "spark": settings.spark,
        "pipelines": {},
    }
    for name, pipeline in settings.pipelines.items():
        shown = pipeline.model_dump(mode="json")
        if isinstance(pipeline, ChannelPipeline):
            shown["buffer"]["window"] = settings.rules(name).window
        understood["pipelines"][name] = shown
    if as_json:
        print(json.dumps(understood, indent=2))
        return
    for name, shown in understood["pipelines"].items():
        print(f"{name} ({shown['discipline']}): {', '.join(shown['input'])} → {shown['output']}")
        for key, value in shown.items():
            if key not in ("discipline", "input", "output"):
                print(f"    {key} = {value if isinstance(value, str) else json.dumps(value)}")
    print(f"{config} can work.", file=sys.stderr)
