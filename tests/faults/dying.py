"""A service whose Python workers die, and that goes on at once: for the process that tests share."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from streaming.service import kafka_watch, query, restarts

FAULTS = "WORKERS_FAULTS"
"""What workers, and they alone, get as SEQUENCER_FAULT."""


@contextmanager
def workers() -> Iterator[None]:
    """The sink's workers die at the points named; the pipeline starts again without a pause."""
    usual = query.own_workers

    @contextmanager
    def armed(context: Any, stage: str = "") -> Iterator[None]:
        with usual(context, stage):
            if stage == "sink":
                fault = {"SEQUENCER_FAULT": os.environ[FAULTS]}
                context.environment = {**context.environment, **fault}
            yield

    with (
        patch.object(query, "own_workers", armed),
        patch.object(kafka_watch, "RESTART_SECONDS", (0,)),
        patch.object(restarts, "ONCE_TRIES_MAX", os.environ[FAULTS].count(",") + 1),
    ):
        yield
