"""How many random histories: few in the short form of the tests, more in the long ones."""

import os
from typing import Any

import pytest
from hypothesis import settings

MORE = int(os.environ.get("SEQUENCER_EXAMPLES", "0"))
"""How many times the examples of a property are tried, others in each run; 0: the short form."""

SHORT_SHARE = 0.5
"""Of the examples of a property so many are tried in the short form, the same in each run."""


def load_profile() -> None:
    """What properties are tried with that do not say it themselves, before they are collected."""
    settings.register_profile("same", max_examples=examples(100), derandomize=True)
    settings.register_profile("more", max_examples=examples(100), print_blob=True)
    settings.load_profile("more" if MORE else "same")


def examples(count: int) -> int:
    """Examples of a property: a share of ``count`` in the short form, else `MORE` times as many."""
    return count * MORE or max(1, round(count * SHORT_SHARE))


def seeds(short: int, long: int, *chosen: int) -> list[Any]:
    """Parameters 0 … ``long`` - 1 and those chosen; `make test` runs the first ``short`` of them,
    and the chosen ones."""
    soaked = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(short, long)]
    return [*range(short), *soaked, *chosen]
