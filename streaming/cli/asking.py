"""What the verbs that send a command share: which pipeline is meant, asking, showing the answer."""

from __future__ import annotations

import base64
import binascii
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streaming.arrow.key_text import unescaped, word_of
from streaming.errors import ConfigError, SequencerError
from streaming.logs import count
from streaming.terminal import printable

if TYPE_CHECKING:
    from streaming.config import Config

LIMIT_SECONDS = 60
REFUSED = 1

ConfigFile = Annotated[Path, typer.Argument(help="The service's TOML file.")]
PipelineOption = Annotated[
    str | None, typer.Option("--pipeline", help="Which pipeline; needed if several fit.")
]
LimitOption = Annotated[
    float, typer.Option("--timeout", help="Seconds to wait for the answer.", min=0.1)
]
ChannelOption = Annotated[
    str | None, typer.Option("--channel", help="The channel, as `status --blocked` shows it.")
]
ChannelBase64Option = Annotated[
    str | None, typer.Option("--channel-base64", help="The same, its bytes as base64.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="The answer as JSON.")]


def load_pipeline(config: Path, pipeline: str | None, *disciplines: str) -> tuple[Config, str]:
    """The configuration, and the pipeline that is meant; of one of these disciplines, if any."""
    from streaming.config import load_config  # noqa: PLC0415  (a quick --help)

    settings = load_config(config)
    fitting = [
        name
        for name in settings.named([pipeline] if pipeline else [])
        if not disciplines or settings.pipelines[name].discipline in disciplines
    ]
    wanted = " or ".join(map(repr, disciplines))
    if not fitting and pipeline:
        other = settings.pipelines[pipeline].discipline
        raise ConfigError(
            f"Pipeline {pipeline!r} has the discipline {other!r}; this verb is for {wanted}.",
            "Nothing was done.",
        )
    if not fitting:
        raise ConfigError(
            f"This command needs a pipeline of discipline {wanted}; {config} has none.",
            "Nothing was done.",
        )
    if len(fitting) > 1:
        raise ConfigError(
            f"{config} has several pipelines that can be meant: {', '.join(sorted(fitting))}.",
            "Nothing was done.",
            "Name one with --pipeline.",
        )
    return settings, fitting[0]


def also_called(**names: str) -> dict[str, Any]:
    """Return settings of a verb whose options can be given by other names, too."""
    return {"token_normalize_func": lambda word: names.get(word, word)} if names else {}


def answer_to(
    settings: Config, name: str, command: dict[str, Any], key: bytes | None, limit_s: float
) -> dict[str, Any]:
    """Send a command to a pipeline and return its answer; see `streaming.kafka.asking.ask`."""
    from streaming.kafka.asking import ask  # noqa: PLC0415  (a quick --help)
    from streaming.service.checkpoint import Checkpoint  # noqa: PLC0415

    try:
        is_running, _ = Checkpoint.of(settings, name).holder()
    except SequencerError:  # its storage may be out of reach from here
        is_running = None
    return ask(settings, name, command, key, limit_s, is_stopped=is_running is False)


def channel_named(channel: str | None, channel_base64: str | None) -> bytes | None:
    """Return the channel that one of the two options names; None where neither is given.

    Raises ConfigError where both are, or one cannot be read.
    """
    if channel is not None and channel_base64 is not None:
        raise ConfigError(
            "--channel and --channel-base64 both name a channel.",
            "Nothing was done.",
            "Give one of them.",
        )
    try:
        if channel_base64 is not None:
            return base64.b64decode(channel_base64, validate=True)
        return None if channel is None else unescaped(channel)
    except binascii.Error as error:
        problem = f"--channel-base64 {channel_base64} is not base64: {error}"
    except ValueError as error:
        problem = f"--channel {channel} {error}"
    raise ConfigError(f"{problem}.", "Nothing was done.")


def tell(answer: dict[str, Any], *, as_json: bool) -> None:
    """Show the answer; exit with status 1 where it was refused, or concerned an unknown channel."""
    refused = answer["event"] == "command-refused"
    nobody = not refused and answer.get("known") is False and not answer["channels"]
    if as_json:
        print(json.dumps(answer))
    elif refused:
        why = answer.get("detail", "no more is known")
        print(printable(f"refused: {answer['reason']} ({why})"))
    elif nobody:
        print(f"nothing done: nobody knows the channel {word_of(answer['channel'])}")
    elif "given_up" in answer:
        would = "would be " if answer.get("dry_run") else ""
        channels, labels = count(answer["channels"], "channel"), count(answer["given_up"], "label")
        print(f"{would}done: {channels}, {labels} given up")
    else:
        print("done")
    if refused or nobody:
        raise typer.Exit(REFUSED)
