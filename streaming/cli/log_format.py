"""The option `--log-format`: before the verb for all of them, behind `run` as well."""

from __future__ import annotations

from typing import Annotated

import typer

from streaming.logs import LogFormat, use

HELP = "Format of standard error: lines of text, or one JSON object a line."


def _use(form: LogFormat | None) -> None:
    if form is not None:
        use(form)


LogFormatOption = Annotated[
    LogFormat,
    typer.Option(
        "--log-format", envvar="SEQUENCER_LOG_FORMAT", callback=_use, is_eager=True, help=HELP
    ),
]
RunLogFormatOption = Annotated[
    LogFormat | None, typer.Option("--log-format", callback=_use, is_eager=True, help=HELP)
]
