"""`sequencer console`: pages in the browser that show what is in order, what waits, and why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streaming.errors import ConfigError

if TYPE_CHECKING:
    from streaming.config import Config

LOOPBACK = ("127.0.0.1", "localhost", "::1")
PORT_MAX = 65_535


def console(
    config: Annotated[Path, typer.Argument(help="The service's TOML file.")],
    listen: Annotated[str, typer.Option("--listen", help="Address and port.")] = "127.0.0.1:8484",
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", help="Users who log in with the token in this file may act."),
    ] = None,
    user_header: Annotated[
        str | None,
        typer.Option("--user-header", help="Trust this header of a login proxy to name the user."),
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host", help="A host name by which browsers reach it; may be given several times."
        ),
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option("--prometheus", help="Show history from this Prometheus: http://HOST:PORT."),
    ] = None,
) -> None:
    """Show pipelines in the browser, and release channels that wait.

    Runs as a separate process that reads the checkpoint's figures and Kafka's topics, and does not
    affect the service. On a loopback address anyone may read; acting (skip, seed, reset, changes of
    groups, resend) needs --token-file or --user-header. On any other address reading needs it, too,
    and a proxy in front should add TLS.

    Needs the extra "console": pip install 'spark-sequencer[console]'.

    Exit status: 0 after SIGTERM; 1 the address is used; 2 the call is wrong; 130 after Ctrl-C.

    Example: sequencer console orders.toml --token-file console.token
    """
    from streaming.config import load_config  # noqa: PLC0415  (a quick --help)

    settings = load_config(config)
    address, port = _address(listen)
    is_open = address in LOOPBACK
    if not is_open and token_file is None and user_header is None:
        raise ConfigError(
            f"{listen} can be reached from other machines, and nobody could log in.",
            "Nothing was started.",
            "Give --token-file FILE, or --user-header NAME behind a login, or listen on 127.0.0.1.",
        )
    if prometheus is not None and not prometheus.startswith(("http://", "https://")):
        raise ConfigError(
            f"--prometheus {prometheus!r} is not an address.",
            "Nothing was started.",
            "Write http://localhost:9090.",
        )
    hosts = frozenset(each.lower() for each in (*LOOPBACK, address, *(host or ())))
    names = hosts if is_open or host else frozenset()
    who = token_file, user_header, is_open
    _serve(settings, (address, port), who, names, prometheus)


def _address(listen: str) -> tuple[str, int]:
    address, _, port = listen.rpartition(":")
    if not address or not port.isdecimal() or not 0 <= int(port) <= PORT_MAX:
        raise ConfigError(
            f"--listen {listen!r} is not an address.",
            "Nothing was started.",
            "Write 127.0.0.1:8484.",
        )
    return address.strip("[]"), int(port)


def _serve(
    config: Config,
    at: tuple[str, int],
    who: tuple[Path | None, str | None, bool],
    hosts: frozenset[str],
    prometheus: str | None,
) -> None:
    """Serve until a signal; ``who``: the token's file, the trusted header, whether all may read."""
    try:
        import uvicorn  # noqa: PLC0415

        from streaming.console.app import Console  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"The console needs the package {error.name}, which is not installed.",
            "Nothing was started.",
            "pip install 'spark-sequencer[console]'",
        ) from error
    from streaming.console.access import Access, token_in  # noqa: PLC0415
    from streaming.console.desk import Desk  # noqa: PLC0415
    from streaming.console.history import Recorder  # noqa: PLC0415
    from streaming.console.listening import bound  # noqa: PLC0415
    from streaming.console.prometheus import Prometheus  # noqa: PLC0415

    token_file, user_header, is_open = who
    token = token_in(token_file) if token_file else None
    header = user_header.lower() if user_header else None
    again = token_file if token_file and token_file.is_file() else None  # a pipe is read once
    access = Access(token, header, is_open, token_file=again)
    recorder = Recorder(config)
    desk = Desk(recorder, access, Prometheus(prometheus) if prometheus else None)
    socket = bound(at)
    port = socket.getsockname()[1]
    server = uvicorn.Server(
        uvicorn.Config(
            Console(desk).app(hosts),
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=64,
            timeout_keep_alive=10,
            timeout_graceful_shutdown=3,
            proxy_headers=False,
        )
    )
    recorder.start()
    shown = f"[{at[0]}]" if ":" in at[0] else at[0]
    print(f"The console is at http://{shown}:{port}/; Ctrl-C ends it.", file=sys.stderr, flush=True)
    try:
        server.run(sockets=[socket])
    finally:
        recorder.stop()
        socket.close()
