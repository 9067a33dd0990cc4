"""How many random histories: few in the short form of the tests, more in the long ones."""

import os
from typing import Any

import pytest
from hypothesis import settings

MORE = int(os.environ.get("SEQUENCER_EXAMPLES", "0"))
"""How many times the examples of the short form; 0: once, the same in each run."""


def load_profile() -> None:
    """What properties are tried with that do not say it themselves, before they are collected."""
    settings.register_profile("same", derandomize=True)
    settings.register_profile("more", max_examples=examples(100), print_blob=True)
    settings.load_profile("more" if MORE else "same")


def examples(count: int) -> int:
    """Examples of a property: ``count`` in the short form, as many times more as `MORE` says."""
    return count * max(MORE, 1)


def seeds(short: int, long: int, *chosen: int) -> list[Any]:
    """Parameters 0 … ``long`` - 1 and those chosen; `make test` runs the first ``short`` of them,
    and the chosen ones."""
    soaked = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(short, long)]
    return [*range(short), *soaked, *chosen]
