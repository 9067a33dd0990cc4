"""`sequencer pack`: what executors need, in one archive."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer


def pack(
    config: Annotated[Path, typer.Argument(help="The service's TOML file.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The archive; an old one is replaced.")
    ] = Path("var/workers.tar.gz"),
) -> None:
    """Pack what a cluster's executors need into one archive.

    Packages, this service and the modules of custom labels; Python itself and Spark are the hosts'
    own. Build it on a machine like the executors' (system, processor, Python's version), and again
    after each upgrade: the service refuses executors that have another version. The lines for
    [spark] in CONFIG go to standard output.

    Exit status: 0 written; 2 the configuration cannot work.

    Example: sequencer pack orders.toml -o var/workers.tar.gz
    """
    from streaming.config import load_config  # noqa: PLC0415  (a quick --help)
    from streaming.spark import worker_archive  # noqa: PLC0415

    size = worker_archive.build(load_config(config), output)
    print(f"{output}: {size / 2**20:.0f} MiB. For [spark] in {config}:", file=sys.stderr)
    for name, value in worker_archive.settings(output).items():
        print(f"{json.dumps(name)} = {json.dumps(value)}")
