"""The command `sequencer`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from streaming.cli.broker import broker
from streaming.cli.check import check
from streaming.cli.run import run
from streaming.cli.status import status
from streaming.cli.talk import send, tail
from streaming.cli.topics import topics
from streaming.errors import SequencerError

INTERRUPTED = 130

app = typer.Typer(
    name="sequencer",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in (run, check, topics, status, send, tail, broker):
    app.command()(command)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415

        print(version("spark-sequencer"))
        raise typer.Exit


@app.callback()
def sequencer(
    _version_wanted: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Puts Kafka messages in order, exactly once, with Spark Structured Streaming.

    Messages for people go to standard error, data to standard output. Exit status: 0 fine; 1 the
    work found a fault; 2 the input (configuration, arguments) is wrong.
    """


def main() -> None:
    """Entry point: every error ends here, as a sentence and an exit status."""
    try:
        status_code = app(standalone_mode=False)
    except SequencerError as error:
        print(f"sequencer: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except typer.Abort:
        sys.exit(INTERRUPTED)
    except Exception as error:
        if hasattr(error, "exit_code") and hasattr(error, "format_message"):  # the call is wrong
            error.show(file=sys.stderr)  # type: ignore[attr-defined]
            sys.exit(2)
        raise
    sys.exit(status_code if isinstance(status_code, int) else 0)
