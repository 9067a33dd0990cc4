"""Seeds of random histories: a few in the short form of the tests, more in the long one."""

from typing import Any

import pytest


def seeds(short: int, long: int, *chosen: int) -> list[Any]:
    """Parameters 0 … ``long`` - 1 and those chosen; `make test` runs the first ``short`` of them,
    and the chosen ones."""
    soaked = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(short, long)]
    return [*range(short), *soaked, *chosen]
