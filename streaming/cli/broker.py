"""`sequencer broker`: a real Kafka broker to try things with."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer


def broker(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1.", min=0, max=65535)] = 9092,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder for the data; by default the data are deleted at the end."),
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", help="A broker property, name=value; may be given often."),
    ] = None,
) -> None:
    """Run an embedded Kafka broker until Ctrl-C or SIGTERM.

    A real Apache Kafka from Maven Central's jars; it needs Java 17 or newer and nothing else. It is
    for trying out, demos and tests: one broker, no replication. Standard output has its address.

    Exit status: 0 after SIGTERM; 1 it ended by itself; 2 the port or folder cannot be used; 130
    after Ctrl-C.

    Example: sequencer broker --port 9092 --data var/kafka
    """
    from streaming.errors import ConfigError  # noqa: PLC0415
    from streaming.kafka.embedded import EmbeddedBroker  # noqa: PLC0415  (a quick --help)

    settings = {}
    for each in properties or []:
        name, separator, value = each.partition("=")
        if not separator:
            raise ConfigError(
                f"--property {each} has no value.", "Nothing was started.", "Write name=value."
            )
        settings[name] = value
    up, stop, by = threading.Event(), threading.Event(), signal.SIGTERM

    def ask(number: int, _frame: object) -> None:
        nonlocal by
        by = signal.Signals(number)
        _thread.start_new_thread(stop.set, ())  # the main thread, in which this runs, waits for it
        if not up.is_set():  # jars are being fetched, or it is starting: nothing to finish
            raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)
    try:
        with EmbeddedBroker(data, port, properties=settings) as embedded:
            up.set()
            print(embedded.bootstrap, flush=True)
            where = embedded.data if data else "thrown away at the end"
            print(f"Kafka answers; data: {where}. Ctrl-C stops it.", file=sys.stderr, flush=True)
            while not stop.wait(0.5):
                if embedded.pid is None:
                    raise embedded.failed("The broker ended by itself")
    except KeyboardInterrupt:
        print("Stopped before Kafka answered.", file=sys.stderr)
    if by == signal.SIGINT:
        raise KeyboardInterrupt
