"""The start of the command `sequencer`: Ctrl-C shows no traceback while it is imported."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line; see `streaming.cli.main`."""
    try:
        from streaming.cli import main as command  # noqa: PLC0415  (half a second to import)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    command()


if __name__ == "__main__":
    main()
