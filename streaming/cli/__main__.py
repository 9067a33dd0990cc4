"""`python -m streaming.cli` is the command `sequencer`."""

from streaming.cli import main

main()
