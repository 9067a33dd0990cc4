"""`sequencer why`: what became of one record, and what it waited for."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer


def why(
    place: Annotated[str, typer.Argument(help="The record, as topic/partition@offset.")],
    config: Annotated[Path, typer.Argument(help="The service's TOML file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the life of one record, from topics alone.

    For an input record: where it went (deliveries, reject, events), what it waited for in its
    channel, since when, and who gave that up. For a record of an output or rejects topic it first
    finds the input record, then shows the same. With the header "origin" on deliveries this takes a
    moment. Without it, deliveries are compared by their bytes, the newest first, and the output
    says how many were compared.

    Exit status: 0 the record is there; 1 Kafka does not answer; 2 wrong input.

    Example: sequencer why trades.in/3@1842 orders.toml
    """
    from streaming.config import load_config  # noqa: PLC0415  (a quick --help)
    from streaming.errors import ConfigError  # noqa: PLC0415
    from streaming.verify.lives import Lives  # noqa: PLC0415
    from streaming.verify.origins import read_origin  # noqa: PLC0415
    from streaming.verify.seeking import Seeker  # noqa: PLC0415

    settings = load_config(config)
    wanted = read_origin(place.encode())
    if wanted is None:
        raise ConfigError(
            f"{place!r} names no record.",
            "Nothing was looked for.",
            "Write topic/partition@offset, for instance trades.in/3@1842.",
        )
    with Seeker(settings, _show) as seeker:
        life = Lives(settings, seeker).of(wanted)
    print(json.dumps(life, indent=2) if as_json else "\n".join(_lines(life)))


def _lines(life: dict[str, Any]) -> Iterator[str]:
    from streaming.arrow.key_text import word_of  # noqa: PLC0415

    key = life["record"]["key"]
    yield f"{life['record']['place']} (key {'null' if key is None else word_of(key)})"
    yield from _found(life["found_by"], life["input"])
    for pipeline in life["pipelines"]:
        yield f"  {pipeline['pipeline']}: {pipeline['state']}"
        for each in pipeline["deliveries"]:
            yield f"    delivered to {each['place']}, sequence {each.get('sequence')}"
        if reject := pipeline["reject"]:
            yield f"    rejected to {reject['place']}: {reject['reject-reason']}"
            for name in ("reject-after", "reject-gap", "reject-detail"):
                if name in reject:
                    yield f"      {name.removeprefix('reject-')} {reject[name]}"
        yield from _waited(pipeline["waited"])
        for event in pipeline["events"]:
            yield f"    event {json.dumps(event)}"
    for span in life["looked_at"]:
        yield f"  looked at {span['topic']}/{span['partition']} from {span['from']} to {span['to']}"


def _found(by: str, record: dict[str, Any] | None) -> Iterator[str]:
    if by == "notice":
        yield "  is a notice" + (f" of the command {record['place']}" if record else "")
    elif record is None:
        yield "  its input was not found"
    elif by != "itself":
        yield f"  is the input {record['place']} (by {by})"


def _waited(waited: dict[str, Any] | None) -> Iterator[str]:
    if waited is None:
        return
    if "for" in waited:
        last = waited["for"]
        yield (
            f"    waited {waited['waited_ms']} ms for label {last.get('label', '?')}, the last to "
            f"come before it ({waited['until'] or last['place']})"
        )
    elif last := waited["last_delivery"]:
        yield f"    the last delivery of its channel is label {last.get('label', '?')}"
    else:
        yield "    nothing of its channel was found in the output"


def _show(what: str, count: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r  {what}: {count:,} of {total:,} ", end="", file=sys.stderr, flush=True)
