"""What the verbs that send a command share: which pipeline is meant, asking, showing the answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streaming.errors import ConfigError

if TYPE_CHECKING:
    from streaming.config import Config

LIMIT_SECONDS = 60
REFUSED = 1

ConfigFile = Annotated[Path, typer.Argument(help="The service's TOML file.")]
PipelineOption = Annotated[
    str | None, typer.Option("--pipeline", help="Which pipeline; needed where several fit.")
]
LimitOption = Annotated[
    float, typer.Option("--limit", help="Seconds to wait for the answer.", min=0.1)
]
JsonOption = Annotated[bool, typer.Option("--json", help="The answer as it stands in Kafka.")]


def load_pipeline(
    config: Path, pipeline: str | None, discipline: str | None = None
) -> tuple[Config, str]:
    """The configuration, and the pipeline that is meant; of this discipline (None: of any)."""
    from streaming.config import load_config  # noqa: PLC0415  (a quick --help)

    settings = load_config(config)
    fitting = [
        name
        for name in settings.named([pipeline] if pipeline else [])
        if discipline in (None, settings.pipelines[name].discipline)
    ]
    if len(fitting) != 1:
        known = ", ".join(sorted(fitting)) or "none"
        among = f"of discipline {discipline!r}" if discipline else "there"
        raise ConfigError(
            f"It is not clear which pipeline is meant: {among} are {known}.",
            "Nothing was sent.",
            "Name one with --pipeline.",
        )
    return settings, fitting[0]


def tell(answer: dict[str, Any], *, as_json: bool) -> None:
    """Show the answer; exit with status 1 where the command was refused."""
    refused = answer["event"] == "command-refused"
    if as_json:
        print(json.dumps(answer))
    elif refused:
        print(f"refused: {answer['reason']} ({answer.get('detail', 'no more is known')})")
    elif "given_up" in answer:
        would = "would be " if answer.get("dry_run") else ""
        print(
            f"{would}done: {answer['channels']:,} channel(s), {answer['given_up']:,} label(s) "
            "given up"
        )
    else:
        print("done")
    if refused:
        raise typer.Exit(REFUSED)
