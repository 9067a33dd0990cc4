"""A service of the released version, ended in the midst of its work, goes on as this version."""

import random
import subprocess
from pathlib import Path

import pytest

from tests.faults.all_disciplines import LONG, Everything, answered, through_ends
from tests.faults.kills import delivered, stop_quietly, wait_at_random
from tests.service_helpers import Service, run_once

RELEASE = "77c9afb1"
"""The commit of version 1.0.0, whose checkpoints have format 11."""
ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """The released version in a folder, and a Python with what it needs."""
    folder = tmp_path_factory.mktemp("released")
    for words in (["clone", "-q", ROOT, folder], ["-C", folder, "checkout", "-q", RELEASE]):
        done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"the history has no {RELEASE}: {done.stderr}")
    subprocess.run(["make", "-C", folder, "setup"], capture_output=True, check=True, timeout=1800)
    return {
        "python": str(folder / ".venv/bin/python"),
        "environment": {"PYTHONPATH": str(folder)},
    }


@pytest.mark.parametrize("end", [stop_quietly, Service.kill])
def test_every_order_with_all_features(broker, tmp_path, released, end):
    every, rng = Everything(broker, tmp_path, *LONG), random.Random(1)
    config = every.config
    with answered(every):
        with Service(config, **released) as service:
            service.until(every.has_nodes)
            every.turn()
            service.until(lambda: all(delivered(config).values()))
            every.turn()
            wait_at_random(service, rng, seconds=3)
            end(service)
        through_ends(every, (stop_quietly, Service.kill), rng)
    run_once(config)
    every.judge()
