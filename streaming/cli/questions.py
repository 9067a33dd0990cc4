"""Options that several verbs have, written once: a dataclass, a field for each.

A verb takes such an object first. :func:`spread` makes of it what typer reads: a function with a
parameter for each field, the verb's own ones in between.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from streaming.arrow.key_text import key_to_json
from streaming.cli.asking import (
    LIMIT_SECONDS,
    ChannelBase64Option,
    ChannelOption,
    ConfigFile,
    JsonOption,
    LimitOption,
    PipelineOption,
    answer_to,
    channel_named,
    load_pipeline,
    tell,
)
from streaming.errors import ConfigError

DIGITS_MAX = 100
ByOption = Annotated[
    str | None,
    typer.Option("--by", help="Who gives the command; the answer repeats it.", envvar="USER"),
]
WhyOption = Annotated[str | None, typer.Option("--why", help="The reason; the answer repeats it.")]


@dataclass(frozen=True, slots=True)
class Question:
    """What every verb is given that sends a command: to which pipeline, and how it is answered."""

    config: ConfigFile
    pipeline: PipelineOption = None
    by: ByOption = None
    why: WhyOption = None
    limit: LimitOption = LIMIT_SECONDS
    as_json: JsonOption = False

    def ask(self, discipline: str, command: dict[str, Any]) -> None:
        """Send the command without the fields that are None, and show the answer."""
        whole = {**command, "by": self.by, "why": self.why}
        given = {name: value for name, value in whole.items() if value is not None}
        settings, name = load_pipeline(self.config, self.pipeline, discipline)
        tell(answer_to(settings, name, given, None, self.limit), as_json=self.as_json)


@dataclass(frozen=True, slots=True)
class ChannelQuestion:
    """The arguments of verbs that act on channels: which channels, by whom and why."""

    config: ConfigFile
    channel: ChannelOption = None
    channel_base64: ChannelBase64Option = None
    blocked: Annotated[
        str | None,
        typer.Option(
            "--blocked", help='All channels that have waited this long, for instance "30 s".'
        ),
    ] = None
    pipeline: PipelineOption = None
    by: ByOption = None
    why: WhyOption = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; show what would be done.")
    ] = False
    limit: LimitOption = LIMIT_SECONDS
    as_json: JsonOption = False

    def ask(self, op: str, **more: str | None) -> None:
        """Check the command, send it, and show the answer."""
        from streaming.disciplines.channels.commands import read_request  # noqa: PLC0415

        whole = {"op": op, **self._channels(), **more, "by": self.by, "why": self.why}
        disciplines = ("channel", "label") if op == "reset" else ("channel",)
        settings, name = load_pipeline(self.config, self.pipeline, *disciplines)
        command = {key: value for key, value in whole.items() if value is not None}
        for key in more.keys() & command.keys():
            text = command[key]
            if settings.pipelines[name].labels.kind != "custom" and _is_number(text):
                command[key] = int(text)
        if self.dry_run:
            command["dry_run"] = True
        request = read_request(json.dumps(command).encode())
        if request.command is None:
            raise ConfigError(f"The command is refused: {request.detail}.", "Nothing was sent.")
        answer = answer_to(settings, name, command, request.command.channel, self.limit)
        tell(answer, as_json=self.as_json)

    def _channels(self) -> dict[str, Any]:
        named = (self.channel, self.channel_base64, self.blocked)
        if sum(name is not None for name in named) != 1:
            raise ConfigError(
                "It is not clear which channels are meant.",
                "Nothing was sent.",
                'Give one of --channel K, --channel-base64 B and --blocked "30 s".',
            )
        channel = channel_named(self.channel, self.channel_base64)
        if channel is not None:
            return {"channel": key_to_json(channel)}
        return {"blocked": self.blocked}


def spread(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb with a parameter for each field of its first one, a dataclass.

    What required comes first: the first field, then the verb's own; then options.
    """
    first, *verbs_own = inspect.signature(verb, eval_str=True).parameters.values()
    shared = inspect.signature(first.annotation, eval_str=True).parameters
    ordered = [*list(shared.values())[:1], *verbs_own, *list(shared.values())[1:]]
    parameters = [parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in ordered]

    @functools.wraps(verb)
    def spread_out(**arguments: Any) -> None:
        question = first.annotation(**{name: arguments.pop(name) for name in shared})
        verb(question, **arguments)

    spread_out.__annotations__ = {}
    spread_out.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return spread_out


def _is_number(text: str) -> bool:
    """Return whether it may be a label; Python reads no number of more than 4,300 digits."""
    return text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX
