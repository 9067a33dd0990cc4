"""The command `sequencer`."""

from __future__ import annotations

import errno
import logging
import os
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from streaming import logs
from streaming.cli.advise import advise
from streaming.cli.asking import also_called
from streaming.cli.backup import backup
from streaming.cli.bench import bench
from streaming.cli.broker import broker
from streaming.cli.changes import group, node
from streaming.cli.check import check
from streaming.cli.clients import end_output
from streaming.cli.console import console
from streaming.cli.demo import demo
from streaming.cli.graph import graph
from streaming.cli.init import init
from streaming.cli.inspect import inspect
from streaming.cli.log_format import LogFormatOption
from streaming.cli.operate import reset, seed, skip
from streaming.cli.pack import pack
from streaming.cli.replay import replay
from streaming.cli.rescale import rescale
from streaming.cli.resend import resend
from streaming.cli.run import run
from streaming.cli.send import send
from streaming.cli.simulate import simulate
from streaming.cli.status import status
from streaming.cli.tail import tail
from streaming.cli.topics import topics
from streaming.cli.verbs import Verbs
from streaming.cli.verify import verify
from streaming.cli.why import why
from streaming.errors import SequencerError
from streaming.terminal import printable

INTERRUPTED = 130
FAULT = 1
WRONG = 2
NOT_WHOLE = (
    "What the command shows is not whole; whatever else it did stays.",
    "Make room, or send its output elsewhere.",
)
NO_FOLDER = (
    "Nothing was done: a path in the command is relative to it.",
    "Change to a folder that exists, and give the command again.",
)
NO_TEMPORARY = "No usable temporary directory"
"""Python's words where it can write to no folder for temporary files."""
NO_ROOM = (
    "Nothing was done.",
    "Set TMPDIR to a folder that this user can write to.",
)
NO_HANDLES = (
    "What is done stays; a batch that a service had begun is repeated at its next start.",
    "Let this user's processes open more files (ulimit -n, LimitNOFILE of systemd).",
)
app = typer.Typer(
    name="sequencer",
    cls=Verbs,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
TIMEOUT = {"limit": "timeout", "wait": "timeout"}
SAME = {
    **dict.fromkeys(("skip", "seed", "reset", "verify"), TIMEOUT),
    "inspect": {"limit": "max"},
}
"""Options by the names that people try first, and those that they have in every verb."""

# Each command's module imports what it needs when it is called, so that --help is quick.
for command in (
    demo, init, run, check, topics, pack, status, inspect, skip, seed, reset, resend, advise,
    replay, verify, why, graph, send, tail, broker, rescale, backup, simulate, console,
    bench,
):  # fmt: skip
    app.command(context_settings=also_called(**SAME.get(command.__name__, {})))(command)
app.add_typer(group, name="group", context_settings=also_called(**TIMEOUT))
app.add_typer(node, name="node", context_settings=also_called(**TIMEOUT))


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415

        print(version("spark-sequencer"))
        raise typer.Exit


def _verbose(wanted: bool) -> None:
    if wanted:
        if not logs.in_json():
            logging.basicConfig(stream=sys.stderr, format="%(name)s: %(message)s")
        logging.getLogger("streaming").setLevel(logging.DEBUG)


@app.callback()
def sequencer(
    _version_wanted: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    _verbose_wanted: Annotated[
        bool,
        typer.Option(
            "--verbose",
            callback=_verbose,
            is_eager=True,
            help="Show tracebacks and the Kafka client's log.",
        ),
    ] = False,
    _log_format: LogFormatOption = logs.LogFormat.TEXT,
) -> None:
    """Puts Kafka messages in order, exactly once, with Spark Structured Streaming.

    Messages for people go to standard error, data to standard output. Exit status: 0 fine; 1 the
    work found a fault; 2 the input (configuration, arguments) is wrong; 130 after Ctrl-C.

    A first try: sequencer demo. With topics of your own: sequencer init orders.toml, sequencer
    check orders.toml, sequencer topics orders.toml --create, sequencer run orders.toml.
    """


def main() -> None:
    """Entry point: every error ends here, as a sentence and an exit status."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # who started us has closed it
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    status = _status()
    try:
        sys.stderr.flush()
    except OSError:  # its disk is full; Python would try again, and end with 120
        end_output(sys.stderr)
    sys.exit(status)


def _status() -> int:
    try:
        status = app(standalone_mode=False)
        sys.stdout.flush()  # a closed pipe is met here, not after the end
    except SequencerError as error:
        _tell(error)
        return error.exit_status
    except (KeyboardInterrupt, typer.Abort):
        status = INTERRUPTED
    except BrokenPipeError:
        end_output()
        return 0
    except Exception as error:  # noqa: BLE001  (the last place where it can be reported)
        if hasattr(error, "show") and hasattr(error, "format_message"):  # the call is wrong
            if logs.in_json():
                logs.say(error.format_message(), event="error", level="error", exit_status=WRONG)
            else:
                with logs.unless_full():
                    error.show(file=sys.stderr)
            return WRONG
        if not _is_of_ctrl_c(error):
            if isinstance(error, OSError) and error.errno in logs.DISK_ERRORS:
                end_output()
                _tell(SequencerError(f"Output cannot be written: {error.strerror}.", *NOT_WHOLE))
            else:
                _tell_fault(error)
            return FAULT
        status = INTERRUPTED
    if status == INTERRUPTED:  # typer makes that of Ctrl-C
        logs.say("stopped by Ctrl-C", event="interrupted", exit_status=INTERRUPTED)
    return status if isinstance(status, int) else 0


def _lack(error: OSError) -> SequencerError | None:
    """Return what this process lacks, if that raised the error."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return SequencerError(f"{error.strerror}.", *NO_HANDLES)
    if error.errno != errno.ENOENT:
        return None
    if error.filename is None and str(error.strerror).startswith(NO_TEMPORARY):
        return SequencerError(f"{error.strerror}.", *NO_ROOM)
    try:
        Path.cwd()
    except FileNotFoundError:
        return SequencerError("The working directory was removed.", *NO_FOLDER)
    return None


def _is_of_ctrl_c(error: BaseException | None) -> bool:
    """Whether a library that was interrupted raised it as it cleaned up."""
    while error and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _tell_fault(error: Exception) -> None:
    if isinstance(error, OSError) and (lack := _lack(error)):
        _tell(lack)
        return
    said = "this is a fault of the program; please report it."
    if logs.in_json():
        trace = traceback.format_exc()
        logs.say(said, event="fault", level="error", traceback=trace, exit_status=FAULT)
        return
    with logs.unless_full():
        traceback.print_exc()
        print(f"sequencer: {said}", file=sys.stderr)


def _tell(error: SequencerError) -> None:
    """What happened, whether it took effect, what to do now: a line each."""
    if logs.in_json():
        parts = {"effect": error.effect or None, "remedy": error.remedy or None}
        status = error.exit_status
        logs.say(error.message, event="error", level="error", **parts, exit_status=status)
        return
    with logs.unless_full():
        if logging.getLogger("streaming").isEnabledFor(logging.DEBUG):
            traceback.print_exception(error)
        print(f"sequencer: {printable(error.message)}", file=sys.stderr)
        for line in filter(None, (error.effect, error.remedy)):
            print(f"  {printable(line)}", file=sys.stderr)
