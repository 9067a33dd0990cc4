"""`sequencer skip`, `seed` and `reset`: what an operator does to channels."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from streaming.cli.asking import (
    LIMIT_SECONDS,
    ConfigFile,
    JsonOption,
    LimitOption,
    PipelineOption,
    load_pipeline,
    tell,
)
from streaming.errors import ConfigError

ChannelOption = Annotated[str | None, typer.Option("--channel", help="The channel.")]
BytesOption = Annotated[
    str | None, typer.Option("--channel-base64", help="The same where it is no text.")
]
BlockedOption = Annotated[
    str | None,
    typer.Option("--blocked", help='All channels that have waited so long, for instance "30 s".'),
]
ByOption = Annotated[
    str | None, typer.Option("--by", help="Who asks; it stands in the answer.", envvar="USER")
]
WhyOption = Annotated[str | None, typer.Option("--why", help="Why; it stands in the answer.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Change nothing; tell what would be done.")
]


def skip(
    config: ConfigFile,
    channel: ChannelOption = None,
    channel_base64: BytesOption = None,
    blocked: BlockedOption = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="Give up what is missing below this label; else below the lowest that is held.",
        ),
    ] = None,
    pipeline: PipelineOption = None,
    by: ByOption = None,
    why: WhyOption = None,
    dry_run: DryRunOption = False,
    limit: LimitOption = LIMIT_SECONDS,
    as_json: JsonOption = False,
) -> None:
    """Give up labels that a channel waits for, so that what is held behind them is delivered.

    Name one channel, or with --blocked all that have waited so long. Each run of labels given up is
    announced on the events topic; the answer to the command stands there, too.

    Exit status: 0 done; 1 refused, or no answer (the command then stays in its topic and takes
    effect when the service reads it); 2 wrong input.

    Example: sequencer skip orders.toml --channel IBM --why "lost with the old gateway"
    """
    whom = _whom(channel, channel_base64, blocked)
    given = {"op": "skip", **whom, "to": to, **_signed(by, why, dry_run=dry_run)}
    tell(_channel_command(config, pipeline, given, limit), as_json=as_json)


def seed(
    config: ConfigFile,
    label: Annotated[str, typer.Option("--label", help="The label that shall be next.")],
    channel: ChannelOption = None,
    channel_base64: BytesOption = None,
    blocked: BlockedOption = None,
    pipeline: PipelineOption = None,
    by: ByOption = None,
    why: WhyOption = None,
    dry_run: DryRunOption = False,
    limit: LimitOption = LIMIT_SECONDS,
    as_json: JsonOption = False,
) -> None:
    """Make LABEL the next label of a channel, also of one that nobody knows yet.

    Labels that are left out are announced as given up. A label that is not ahead is refused.

    Exit status: 0 done; 1 refused, or no answer (the command then stays in its topic and takes
    effect when the service reads it); 2 wrong input.

    Example: sequencer seed orders.toml --channel IBM --label 100
    """
    whom = _whom(channel, channel_base64, blocked)
    given = {"op": "seed", **whom, "label": label, **_signed(by, why, dry_run=dry_run)}
    tell(_channel_command(config, pipeline, given, limit), as_json=as_json)


def reset(
    config: ConfigFile,
    channel: ChannelOption = None,
    channel_base64: BytesOption = None,
    blocked: BlockedOption = None,
    pipeline: PipelineOption = None,
    by: ByOption = None,
    why: WhyOption = None,
    dry_run: DryRunOption = False,
    limit: LimitOption = LIMIT_SECONDS,
    as_json: JsonOption = False,
) -> None:
    """Forget a channel: what it holds is rejected, what comes next begins at the first label.

    Its numbers begin again under a higher incarnation.

    Exit status: 0 done; 1 refused, or no answer (the command then stays in its topic and takes
    effect when the service reads it); 2 wrong input.

    Example: sequencer reset orders.toml --channel IBM --why "sender begins again at 0"
    """
    whom = _whom(channel, channel_base64, blocked)
    given = {"op": "reset", **whom, **_signed(by, why, dry_run=dry_run)}
    tell(_channel_command(config, pipeline, given, limit), as_json=as_json)


def _whom(channel: str | None, channel_base64: str | None, blocked: str | None) -> dict[str, Any]:
    if sum(each is not None for each in (channel, channel_base64, blocked)) != 1:
        raise ConfigError(
            "It is not clear which channels are meant.",
            "Nothing was sent.",
            'Give one of --channel K, --channel-base64 B and --blocked "30 s".',
        )
    if channel is not None:
        from streaming.arrow.key_text import key_to_json  # noqa: PLC0415  (a quick --help)

        return {"channel": key_to_json(os.fsencode(channel))}
    return {"blocked": blocked} if blocked else {"channel": {"base64": channel_base64}}


def _signed(by: str | None, why: str | None, *, dry_run: bool) -> dict[str, Any]:
    return {"by": by, "why": why, "dry_run": dry_run or None}


def _channel_command(
    config: Path, pipeline: str | None, given: dict[str, Any], limit: float
) -> dict[str, Any]:
    """Send a command to channels; what it says is checked before."""
    from streaming.disciplines.channels.commands import read_request  # noqa: PLC0415
    from streaming.kafka.asking import ask  # noqa: PLC0415

    settings, name = load_pipeline(config, pipeline, "channel")
    command = {key: value for key, value in given.items() if value is not None}
    for key in ("to", "label"):
        text = command.get(key, "")
        if settings.pipelines[name].labels.kind != "custom" and text.isascii() and text.isdigit():
            command[key] = int(text)
    request = read_request(json.dumps(command).encode())
    if request.command is None:
        raise ConfigError(f"The command is refused: {request.detail}.", "Nothing was sent.")
    return ask(settings, name, command, request.command.channel, limit)
