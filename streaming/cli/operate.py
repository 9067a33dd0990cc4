"""`sequencer skip`, `seed` and `reset`: what an operator does to channels."""

from __future__ import annotations

from typing import Annotated

import typer

from streaming.cli.questions import ChannelQuestion, spread


@spread
def skip(
    question: ChannelQuestion,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="Give up missing labels below this one; by default below the lowest held label.",
        ),
    ] = None,
) -> None:
    """Give up labels for which a channel waits.

    What is held behind them is delivered.

    Name one channel, or with --blocked all that have waited this long. Each run of labels given up
    is announced on the events topic; the answer to the command stands there, too.

    Exit status: 0 done; 1 refused, the channel is unknown, or no answer (the command then stays in
    its topic and takes effect when the service reads it); 2 wrong input.

    Example: sequencer skip orders.toml --channel IBM --why "lost with the old gateway"
    """
    question.ask("skip", to=to)


@spread
def seed(
    question: ChannelQuestion,
    label: Annotated[str, typer.Option("--label", help="The next label.")],
) -> None:
    """Make LABEL the next label of a channel.

    The channel need not be known yet.

    Labels that are left out are announced as given up. A label that is not ahead is refused.

    Exit status: 0 done; 1 refused, or no answer (the command then stays in its topic and takes
    effect when the service reads it); 2 wrong input.

    Example: sequencer seed orders.toml --channel IBM --label 100
    """
    question.ask("seed", label=label)


@spread
def reset(question: ChannelQuestion) -> None:
    """Forget a channel and reject its held messages.

    What comes next begins at the first label.

    Its numbers begin again under a higher incarnation.

    Exit status: 0 done; 1 refused, the channel is unknown, or no answer (the command then stays in
    its topic and takes effect when the service reads it); 2 wrong input.

    Example: sequencer reset orders.toml --channel IBM --why "sender begins again at 0"
    """
    question.ask("reset")
