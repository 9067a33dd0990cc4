"""The lag of running pipelines, looked at now and then: whoever asks for metrics does not wait."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from streaming.errors import SequencerError
from streaming.kafka.lag import Lag, LagReader
from streaming.service.offsets import offsets_of

if TYPE_CHECKING:
    from streaming.service.pipeline import Pipeline

EVERY_SECONDS = 5.0


class LagWatch(threading.Thread):
    """Keeps the lag of each pipeline that has read something; none while Kafka does not answer."""

    def __init__(self, pipelines: list[Pipeline]) -> None:
        super().__init__(daemon=True)
        self.pipelines = pipelines
        self._readers: dict[str, LagReader] = {}
        self._known: dict[str, Lag] = {}
        self._ended = threading.Event()

    def of(self, name: str) -> Lag | None:
        """The lag of a pipeline at the last look."""
        return self._known.get(name)

    def run(self) -> None:
        """Look every few seconds, until the end."""
        while not self._ended.wait(EVERY_SECONDS):
            for pipeline in list(self.pipelines):
                self._look_at(pipeline)
        for reader in self._readers.values():
            reader.close()

    def end(self) -> None:
        """Look no more."""
        self._ended.set()

    def _look_at(self, pipeline: Pipeline) -> None:
        lag = None
        with contextlib.suppress(Exception):  # the query ends just now, or Kafka is away
            lag = self._lag(pipeline)
        if lag is None:
            self._known.pop(pipeline.name, None)
        else:
            self._known[pipeline.name] = lag

    def _lag(self, pipeline: Pipeline) -> Lag | None:
        read = offsets_of(pipeline.last_report, "endOffset")
        if not read:
            return None
        reader = self._readers.get(pipeline.name)
        if reader is None:
            settings = pipeline.config.pipelines[pipeline.name]
            reader = LagReader(pipeline.config, (*settings.input, settings.commands))
            self._readers[pipeline.name] = reader
        try:
            return reader(read)
        except SequencerError:
            self._readers.pop(pipeline.name).close()
            raise
