"""Refusals: Kafka answers, and does not accept this user's name, password, token or certificate.

Unlike an outage, that may not end by itself. What comes from a file is read again; what came from
the environment, or stands in the configuration's text, is that of the start.
"""

from __future__ import annotations

import time

from streaming.config import Config
from streaming.errors import ConfigError, JobFailed, KafkaUnavailable, SequencerError
from streaming.wire.connections import REFUSALS, is_about_certificates

REFUSED_SECONDS_MAX = 600.0
"""How long refusals may go on before a new start is to read the environment."""
MINUTES = REFUSED_SECONDS_MAX / 60
APART_SECONDS_MAX = 120.0
"""Refusals with more time between them are not of one row: Kafka was away meanwhile."""
SAID_EVERY_SECONDS = 3600.0
OF_LOGIN, OF_TLS = "sasl.", "ssl."
"""Beginnings of the properties that a refusal is about."""


class Refusals:
    """Refusals in a row: when to say one, and when to end the service for them."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._since = self._latest = self._said = -float("inf")

    def note(self, error: SequencerError) -> str | None:
        """Return the sentence that is to be said for an error of a new connection, if any.

        It is said at the first refusal, and once an hour. JobFailed after REFUSED_SECONDS_MAX of
        refusals, if a secret came from the environment: a new process may have another one.
        """
        about = _about(error)
        if about is None:
            return None
        now = time.monotonic()
        if now - self._latest > APART_SECONDS_MAX:
            self._since = now
        self._latest = now
        names = self._of_the_start(about)
        if names and now - self._since >= REFUSED_SECONDS_MAX:
            raise _ended(error, names)
        if now - self._said < SAID_EVERY_SECONDS:
            return None
        self._said = now
        said = (
            f"{error.message} Waiting for it. Files that properties name with ${{file:…}} are read "
            "again; a secret from the environment or from the text of the configuration is that of "
            "the start: if it was changed since, the service has to be started again."
        )
        if names:
            said += (
                f" If Kafka still refuses after {MINUTES:.0f} minutes, the service ends with "
                "status 1, so that it is."
            )
        return said

    def _of_the_start(self, about: str) -> list[str]:
        """What only a new start can renew; none where a file may be what is renewed later."""
        written = self._config.kafka.properties
        files = {*self._config.in_files.get("properties", ())}
        files |= {name for name, text in written.items() if _names_file(name, text)}
        if any(name.startswith(about) for name in files):
            return []
        return [name for name in self._config.from_environment if name.startswith(about)]

    def end(self) -> None:
        """Note that Kafka accepted this user."""
        self._since = self._latest = self._said = -float("inf")


def _names_file(name: str, text: str) -> bool:
    """Whether a property says where something is that each connection reads anew."""
    return (
        name.endswith(".location") or text.startswith("file:") or "keytab" in (name + text).lower()
    )


def is_refusal(error: BaseException) -> bool:
    """Return whether an error of a new connection says that Kafka refuses this user.

    Also if one side refuses the other's certificate. A right that is missing is none: it shows only
    when something is asked for.
    """
    return _about(error) is not None


def _about(error: BaseException) -> str | None:
    """Return the beginning of the properties that a refusal is about; None if it is none."""
    found: list[BaseException] = []
    cause = error.__cause__ if isinstance(error, KafkaUnavailable) else None
    while cause is not None:
        found.append(cause)
        cause = cause.__cause__
    if any(isinstance(each, ConfigError) for each in found):
        return None  # a file of ours that cannot be used for a moment
    if any(isinstance(each, REFUSALS) for each in found):
        return OF_LOGIN
    return OF_TLS if any(map(is_about_certificates, found)) else None


def _ended(error: SequencerError, names: list[str]) -> JobFailed:
    is_one = len(names) == 1
    return JobFailed(
        f"{error.message} That has gone on for {MINUTES:.0f} minutes, and "
        f"{', '.join(names)} {'is' if is_one else 'are'} from the environment, which is that of "
        "the start.",
        "Batches that were under way will be repeated.",
        "Start the service again with the present secret in its environment (systemd and "
        "Kubernetes do). A secret from a file (${file:/path}) is read again without a start.",
    )
