"""`sequencer run`: the service itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streaming.cli.log_format import RunLogFormatOption
from streaming.logs import count, say

if TYPE_CHECKING:
    from streaming.config import Config


def run(
    config: Annotated[Path, typer.Argument(help="The service's TOML file.")],
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Work through the backlog, then stop, without waiting for timers."
        ),
    ] = False,
    pipeline: Annotated[
        list[str] | None,
        typer.Option("--pipeline", help="Only this pipeline; may be given several times."),
    ] = None,
    accept_repeats: Annotated[
        bool,
        typer.Option(
            "--accept-repeats",
            help="Continue if the checkpoint is older than its output, or if it is unknown whether "
            "the last batch was written.",
        ),
    ] = False,
    accept_lost_input: Annotated[
        bool,
        typer.Option(
            "--accept-lost-input",
            help="Continue after lost input; read recreated topics from their beginning.",
        ),
    ] = False,
    _log_format: RunLogFormatOption = None,
) -> None:
    """Run the pipelines of CONFIG until stopped.

    With --once: until all input is done.

    If Kafka is unreachable, at the start or later, the service waits for it. Ctrl-C or SIGTERM
    finishes the running batch and stops; kill -9 loses and repeats nothing either. A pipeline whose
    input is lost or damaged stops; the others continue.

    With --log-format json, standard error has one JSON object a line: time, level, event, message,
    and the figures of the event.

    Exit status: 0 stopped as asked; 1 the job failed (a gap under the policy "fail", another copy
    of the service, a damaged checkpoint); 2 the configuration cannot work.

    Example: sequencer run orders.toml
    """
    from streaming import crashes, logs  # noqa: PLC0415  (a quick --help)
    from streaming.stopping import Stopping  # noqa: PLC0415

    crashes.arm()
    stopping = Stopping()
    with logs.only_json(), stopping.listening():  # what follows takes some seconds
        from streaming.config import load_config  # noqa: PLC0415
        from streaming.spark.session import start_jvm  # noqa: PLC0415

        settings = load_config(config)
        names = settings.named(pipeline or [])
        settings.check(names)
        _say_starting(settings, names)
        with start_jvm(settings, workers=True) as jvm:
            from streaming.service.run import Service  # noqa: PLC0415  (while the JVM starts)

            Service(
                settings,
                jvm,
                names=names,
                once=once,
                accept_repeats=accept_repeats,
                accept_lost_input=accept_lost_input,
                stopping=stopping,
            ).run()


def _say_starting(settings: Config, names: list[str]) -> None:
    service = settings.service
    say(
        f"{service.name}: starting {count(len(names), 'pipeline')} ({', '.join(names)}) with "
        f"Kafka at {settings.kafka.bootstrap_servers} and the checkpoint {service.checkpoint}; "
        "Spark takes some seconds",
        event="starting",
        service=service.name,
        pipelines=names,
        kafka=settings.kafka.bootstrap_servers,
        checkpoint=service.checkpoint,
    )
