"""Services whose batches are written in many small parts.

`python -m tests.faults.small_parts run CONFIG` is one in a process of its own.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from streaming import cli
from streaming.disciplines.plan import Plan
from streaming.service import pipeline
from tests.faults import dying, torn

RECORDS_MAX = "PART_RECORDS_MAX"
"""Of a part; 1 where it is unset."""


@contextmanager
def plans() -> Iterator[None]:
    """Plans that have the sink cut after few records."""
    usual = pipeline.make_plan
    records = int(os.environ.get(RECORDS_MAX, "1"))

    def small(*given: Any) -> Plan:
        return replace(usual(*given), part_records_max=records)

    with patch.object(pipeline, "make_plan", small):
        yield


@contextmanager
def dying_workers() -> Iterator[None]:
    """The same, and the sink's workers die."""
    with plans(), dying.workers():
        yield


@contextmanager
def torn_operators() -> Iterator[None]:
    """The same, and operators end between two of their rows."""
    with plans(), torn.operators():
        yield


if __name__ == "__main__":
    with plans():
        cli.main()
