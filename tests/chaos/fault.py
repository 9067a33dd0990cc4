"""A fault: its name, what it may do to a service, how it begins and how it ends."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from streaming.kafka.embedded import EmbeddedBroker

GOES_ON = None
"""In place of an exit status: the service does not end."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that happens to a service.

    ``act`` takes a `place.Place` and gives a context manager: the fault begins where that is entered
    and ends where it is left, ``seconds`` later. ``may``: the exit statuses that it may bring about;
    ``words`` say it where that is not all.
    ``kafka``: what has to be started for it, with these ``properties``. ``needs``: what a machine may lack.
    """

    name: str
    act: Callable[[Any], AbstractContextManager[None]]
    may: tuple[int | None, ...] = (GOES_ON,)
    seconds: float = 0
    kafka: type = EmbeddedBroker
    properties: Mapping[str, str] = field(default_factory=dict)
    words: str = ""
    needs: str = ""

    def allowed(self):
        """What it may do, in words."""
        return self.words or " or ".join(
            outcome([] if each is GOES_ON else [each]) for each in self.may
        )

    def judge(self, endings):
        """AssertionError where the service ended otherwise than it may."""
        ended = set(endings) or {GOES_ON}
        assert ended <= set(self.may), f"{self.name}: {outcome(endings)}, not {self.allowed()}"


def outcome(endings, remarks=()):
    """Exit statuses, and what else was seen, in words."""
    words = [f"ends with {each}, is started again" for each in endings] or ["goes on"]
    return "; ".join([*words, *remarks])
