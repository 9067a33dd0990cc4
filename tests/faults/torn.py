"""Operators that end between two of their rows: for the process that tests share.

Each row leaves by itself, and is with the sink before the next: as where rows are large.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import pandas as pd
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.pandas.group_ops import PandasGroupedOpsMixin

from streaming.service import kafka_watch, restarts
from streaming.spark.worker_daemon import OUTPUT_ROWS_MAX

FOLDER = "TORN_FOLDER"
"""Notes which moments have been; no operator ends where it is unset."""
WAITS_AT = "TORN_WAITS_AT"
"""The one moment at which operators wait, in place of ending, until they are killed."""
ROWS_APART = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.execution.pandas.udf.buffer.size": "4",
}
BLANK = {"topic": "", "rows": b""}
"""A row that has nothing new: it pushes the one before out of the worker."""


@contextmanager
def operators() -> Iterator[None]:
    """Operators end once at each moment; the pipeline starts again without a pause."""
    usual = PandasGroupedOpsMixin.applyInPandasWithState
    folder = os.environ.get(FOLDER)
    session = None
    before: dict[str, Any] = {}

    def ending(grouped: Any, operator: Any, *schemas: Any) -> Any:
        nonlocal session
        session = grouped._df.sparkSession
        for name, value in ROWS_APART.items():
            before.setdefault(name, session.conf.get(name))
            session.conf.set(name, value)
        pipeline = operator.plan.pipeline
        prefix = folder and f"{folder}/{pipeline}"
        return usual(grouped, Ending(operator, prefix, os.environ.get(WAITS_AT)), *schemas)

    with (
        patch.object(PandasGroupedOpsMixin, "applyInPandasWithState", ending),
        patch.object(kafka_watch, "RESTART_SECONDS", (0,)),
        patch.object(restarts, "ONCE_TRIES_MAX", 1000 if folder else restarts.ONCE_TRIES_MAX),
    ):
        yield
    if isinstance(session, SparkSession):
        for name, value in before.items():
            session.conf.set(name, value)


class Ending:
    """An operator that raises, or whose worker is killed, once at each moment of its task.

    A moment is the beginning, or the time behind a row.
    """

    moments: ClassVar[dict[int, int]] = {}
    """How many moments each task of this worker has had."""

    def __init__(self, operator: Any, prefix: str | None, waits_at: str | None) -> None:
        self.operator = operator
        self.prefix = prefix
        self.waits_at = waits_at

    def __call__(self, key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
        task = TaskContext.get()
        assert task is not None
        if task.taskAttemptId() not in self.moments:
            self._moment(task)
        for rows in self.operator(key, frames, state):
            for at in range(len(rows)):
                row = rows.iloc[[at]]
                yield row
                yield pd.concat([row.assign(**BLANK)] * OUTPUT_ROWS_MAX)
                self._moment(task)

    def _moment(self, task: TaskContext) -> None:
        attempt = task.taskAttemptId()
        moment = self.moments[attempt] = self.moments.get(attempt, -1) + 1
        if self.prefix is None or self.waits_at not in (None, str(moment)):
            return
        try:
            Path(f"{self.prefix}-{task.partitionId()}-{moment}").touch(exist_ok=False)
        except FileExistsError:
            return
        while self.waits_at:
            signal.pause()
        if moment % 2:
            os.kill(os.getpid(), signal.SIGKILL)
        raise MemoryError(f"moment {moment}")


def moments(folder: Path) -> dict[str, int]:
    """How many moments each state partition of each pipeline ended at; there is no hole."""
    found: dict[str, list[int]] = {}
    for path in folder.iterdir():
        task, _, moment = path.name.rpartition("-")
        found.setdefault(task, []).append(int(moment))
    assert all(sorted(each) == list(range(len(each))) for each in found.values()), found
    return {task: len(each) for task, each in sorted(found.items())}


def environment(folder: Path, waits_at: int | None = None) -> dict[str, str]:
    """What a run gets in whose operators all moments of this folder come, or one."""
    folder.mkdir()
    return {FOLDER: str(folder)} | ({} if waits_at is None else {WAITS_AT: str(waits_at)})
