"""Whether the service lives: what /healthz answers, and /readyz."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from streaming.config import Config
from streaming.errors import FileUnusable, KafkaUnavailable
from streaming.kafka import connection
from streaming.service.refusals import is_refusal

if TYPE_CHECKING:
    from streaming.service.pipeline import Pipeline

KAFKA_SECONDS_MAX = 2.0


class Health:
    """Judges the running service: a hung loop or batch is dead, waiting for Kafka is not.

    ``beat`` is called by the loop that starts and watches the pipelines, also while it waits.
    ``pipelines`` may be filled later. ``answers``: whether Kafka does; a refusal is an answer.
    """

    def __init__(
        self,
        config: Config,
        pipelines: list[Pipeline],
        answers: Callable[[], bool] | None = None,
    ) -> None:
        self.pipelines = pipelines
        self._limit_s = config.service.hung_after.ms / 1000
        self._answers = answers or (lambda: _kafka_answers(config))
        self._beaten = time.monotonic()

    def beat(self) -> None:
        """Note that the loop goes round."""
        self._beaten = time.monotonic()

    def fault(self) -> str | None:
        """Return what hangs, though Kafka answers; None where the service lives."""
        hangs = self._hangs()
        return hangs if hangs and self._answers() else None

    def _hangs(self) -> str | None:
        if not self.pipelines:  # it waits for executors, or Kafka
            return None
        quiet_s = time.monotonic() - self._beaten
        if quiet_s > self._limit_s:
            return f"the service's loop has not gone round for {quiet_s:.0f} s"
        for pipeline in list(self.pipelines):
            quiet_s = time.time() - pipeline.worked
            if pipeline.runs and quiet_s > self._limit_s:
                return f"{pipeline.name}: no batch has ended for {quiet_s:.0f} s"
        return None

    def missing(self) -> str | None:
        """Return which pipelines do not run, None where all do."""
        if not self.pipelines:
            return "starting"
        waiting = [each.name for each in self.pipelines if not (each.runs or each.finished)]
        return f"not running: {', '.join(waiting)}" if waiting else None


def _kafka_answers(config: Config) -> bool:
    """Return whether Kafka answers a new connection, be it with a refusal.

    If it refuses us, a batch over connections of before may go on. One that does not has no outage
    to wait for.
    """
    try:
        connection.wait_for_kafka(config, KAFKA_SECONDS_MAX, announce=False)
    except KafkaUnavailable as error:
        return is_refusal(error)
    except FileUnusable:
        return False
    return True
