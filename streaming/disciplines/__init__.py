"""The disciplines: a package each, registered here, and what they share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streaming.disciplines.channels import CHANNEL
from streaming.disciplines.discipline import Discipline
from streaming.disciplines.groups import GROUP
from streaming.disciplines.label import LABEL
from streaming.disciplines.multicast import MULTICAST

DISCIPLINES: dict[str, Discipline] = {
    each.name: each for each in (CHANNEL, GROUP, MULTICAST, LABEL)
}


def operators(pipelines: Iterable[Any]) -> list[str]:
    """Modules of the operators that these pipelines run; workers need them."""
    return sorted(
        {
            name
            for pipeline in pipelines
            for name in DISCIPLINES[pipeline.discipline].operators(pipeline)
        }
    )


def has_rows(pipelines: Iterable[Any]) -> bool:
    """Whether Spark evaluates expressions for one of these, and so has rows of each record."""
    return any(DISCIPLINES[pipeline.discipline].rows(pipeline) for pipeline in pipelines)
