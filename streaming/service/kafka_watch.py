"""Whether Kafka answers: asked before what needs it, and waited for at the service's start."""

from __future__ import annotations

from collections.abc import Callable

from streaming.config import Config
from streaming.errors import (
    FileUnusable,
    KafkaRefused,
    KafkaUnavailable,
    SequencerError,
    StorageUnavailable,
)
from streaming.kafka import connection
from streaming.logs import say
from streaming.service.refusals import Refusals
from streaming.stopping import Stopping

POLL_SECONDS = 0.2
ANSWER_SECONDS_MAX = 3
RESTART_SECONDS = (1, 2, 5, 10, 30)
FILE_TRIES_MAX = 2
"""At the start a file may be unusable in this many tries, for 3 s: it may be half written."""

Note = Callable[[str, str, str], None]
"""Keeps an event and its sentence beside the state of a pipeline, or of all ("")."""


class KafkaWatch:
    """Asks whether Kafka answers, and says once that it does not, and that it is back.

    A refusal of this user is said again each hour (`Refusals`).

    ``beat`` is called before each question, which takes some seconds while Kafka is away.
    """

    def __init__(
        self, config: Config, stopping: Stopping, beat: Callable[[], None], note: Note
    ) -> None:
        self.config = config
        self.stopping = stopping
        self._beat = beat
        self._note = note
        self._is_away = self._has_answered = False
        self._refusals = Refusals(config)

    def answers(self) -> bool:
        """Ask once; FileUnusable where a file is that before Kafka has ever answered.

        JobFailed where Kafka has refused this user for long, and only a new start may mend it.
        """
        self._beat()
        try:
            connection.wait_for_kafka(self.config, limit_s=ANSWER_SECONDS_MAX, announce=False)
        except (KafkaUnavailable, FileUnusable) as error:
            self.config.renew()  # a password in a file may be another one now
            if isinstance(error, FileUnusable) and not self._has_answered:
                raise
            text = self._refusals.note(error)
            if text is None and not self._is_away:
                text = f"{error.message} Waiting for it."
            if text is not None:
                say(text, event="kafka-away", level="warning")
                self._note("kafka-away", text, "")
            self._is_away = True
            return False
        if self._is_away:
            say("Kafka is back.", event="kafka-back")
            self._note("kafka-back", "Kafka is back.", "")
        self._is_away, self._has_answered = False, True
        self._refusals.end()
        return True

    def insist(self, action: Callable[[], object], name: str = "") -> bool:
        """Do something that asks Kafka, and retry while it is away; whether it was done.

        It is not where the service is asked to stop meanwhile. ``name``: of the pipeline.
        """
        failures = unusable = 0
        while True:
            try:
                if not self._wait():
                    return False
                action()
            except KafkaRefused:
                raise
            except (KafkaUnavailable, StorageUnavailable, FileUnusable) as error:  # meanwhile
                unusable += isinstance(error, FileUnusable)
                if unusable > FILE_TRIES_MAX:
                    raise
                pause = pause_after(failures)
                say_again(name or self.config.service.name, error, pause)
                self._note("failed", f"{error} It was tried again.", name)
                self.stopping.wait(pause)
                failures += 1
            else:
                return not self.stopping.is_set()

    def _wait(self) -> bool:
        """Wait until Kafka answers; False when asked to stop meanwhile."""
        while not self.stopping.is_set():
            if self.answers():
                return True
            self.stopping.wait(POLL_SECONDS)  # a refusal is reported at once
        return False


def pause_after(failures: int) -> int:
    """Return the seconds to wait after this many failures in a row."""
    return RESTART_SECONDS[min(failures, len(RESTART_SECONDS) - 1)]


def say_again(name: str, why: SequencerError, pause_s: int) -> None:
    """Say what failed, and when it is tried again."""
    say(
        f"{name}: {why} Trying again in {pause_s} s.",
        event="failed",
        level="warning",
        pipeline=name,
        reason=str(why),
        pause_s=pause_s,
    )
