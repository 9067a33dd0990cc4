"""SQL expressions of recorded input: Spark works them out, some thousand records at a time."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from streaming.arrow.kafka_rows import KAFKA_ROW, kafka_rows
from streaming.arrow.schemas import TYPED_RECORD
from streaming.config import Config
from streaming.disciplines.channels.plan import ChannelPlan
from streaming.disciplines.channels.records import with_expressions
from streaming.disciplines.channels.sql import has_sql
from streaming.errors import ConfigError
from streaming.replay.recorded import InputRow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 20_000
MADE = ("channel", "label")
"""What expressions may make of a record, as bytes."""


class Expressions:
    """Works out the SQL of plans. Spark starts where one of them has some, and ends with this."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._stack = ExitStack()
        self._session: SparkSession | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def each(
        self, recorded: Iterator[tuple[int, InputRow]], plans: Sequence[ChannelPlan]
    ) -> Iterator[tuple[int, tuple[InputRow, ...]]]:
        """(clock, the record as each of the plans takes it)."""
        while part := list(islice(recorded, ROWS)):
            rows = [row for _, row in part]
            taken = zip(*(self._worked_out(rows, plan) for plan in plans), strict=True)
            yield from zip((clock for clock, _ in part), taken, strict=True)

    def _worked_out(self, rows: list[InputRow], plan: ChannelPlan) -> list[InputRow]:
        """Return the records with what the plan's SQL makes of them; unchanged if it has none."""
        if not has_sql(plan.channel, plan.label):
            return rows
        table = pa.Table.from_pylist(rows, schema=TYPED_RECORD)
        records = pa.Table.from_batches([kafka_rows(table, plan.reads)])
        frame = self._spark().createDataFrame(records, KAFKA_ROW)
        evaluated = with_expressions(frame, plan)
        wanted = [name for name in MADE if name in evaluated.columns]
        columns = evaluated.select(*wanted).toArrow()
        if len(columns) != len(rows):
            raise ConfigError(
                f"pipelines.{plan.pipeline}: {str(plan.channel)!r} or {str(plan.label)!r} gives "
                f"{len(columns)} values for {len(rows)} records.",
                "The replay ended there.",
                "Write SQL expressions that give one value for each record.",
            )
        return [row | more for row, more in zip(rows, columns.to_pylist(), strict=True)]

    def _spark(self) -> SparkSession:
        if self._session is None:
            from streaming.spark.session import local, spark_session  # noqa: PLC0415  (slow)

            print("working out SQL expressions with Spark …", file=sys.stderr, flush=True)
            self._session = self._stack.enter_context(spark_session(local(self.config)))
        return self._session
