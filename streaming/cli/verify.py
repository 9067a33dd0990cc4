"""`sequencer verify`: is the order right? Judged from the topics alone."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer


def verify(
    config: Annotated[Path, typer.Argument(help="The service's TOML file.")],
    pipeline: Annotated[
        list[str] | None, typer.Option("--pipeline", help="Only this one; may be given often.")
    ] = None,
    wait: Annotated[
        float,
        typer.Option(
            "--timeout",
            help="Seconds to wait for what a running service has not written yet.",
            min=0,
        ),
    ] = 10.0,
    causes: Annotated[
        str,
        typer.Option(
            metavar="HEADER",
            help="The header in which senders name what was read before they sent: deliveries as "
            "topic/partition@offset, with commas between.",
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Judge the order from the input and output topics alone.

    Checked: sequences without a hole; bytes, headers and timestamps untouched; every input record
    delivered, rejected with a reason that fits, dropped as a duplicate, or held. Channels: labels
    in order, each once, no hole but an announced gap. Groups and multicasts: everyone who had to
    get a message, once, and nobody else; one order of all messages, without a cycle; senders'
    orders; stamps; memberships, nodes and handles; every command answered once. With --causes:
    nobody gets a message before one that was read, by anyone anywhere, before it was sent.

    Uses neither the service nor its checkpoint. Topics must still have all their records
    (retention). A record that is still missing after --timeout seconds is a fault.

    Exit status: 0 no fault; 1 faults, each named with a witness, or Kafka does not answer; 2 the
    configuration cannot work.

    Example: sequencer verify orders.toml
    """
    from streaming.verify.report import report_on  # noqa: PLC0415  (a quick --help)

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # files of parts go, as with Ctrl-C
    if not report_on(config, pipeline or [], wait, causes, as_json=as_json):
        raise typer.Exit(1)
