"""The smallest form of `make chaos`."""

import pytest

from tests.chaos.faults import FAULTS, SHORT, chosen
from tests.chaos.run import HEAD, Chaos
from tests.chaos.traffic import NAMES


@pytest.mark.timeout(1200)
def test_a_worker_is_killed_and_another_one_stands_still(broker, tmp_path):
    chaos = Chaos(broker, tmp_path, ["channel", "group", "batch"], seed=1)
    chaos.run(["worker killed", "worker paused 5 s"])
    assert next(chaos.table()) == HEAD
    assert len(chaos.seconds) == 6


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("faults", [SHORT, FAULTS], ids=["short", "all"])
def test_every_fault_of_a_process(broker, tmp_path, faults):
    chaos = Chaos(broker, tmp_path, NAMES, seed=2)
    chaos.run(chosen(faults, 1, 2))
    assert len(chaos.seconds) == len(faults) * len(NAMES)
