"""`python -m streaming.cli` is `sequencer`, where the command is not on the PATH."""

from streaming.cli import main

main()
