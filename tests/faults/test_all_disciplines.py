"""One service of all disciplines that ends in many ways while clients go on, and is started again.

Stopped, without its driver, killed as a whole: then it finishes, and is judged from the topics.
"""

import random

import pytest

from tests.faults.all_disciplines import LONG, SEED, SHORT, Everything, answered, through_ends
from tests.faults.kills import delivered, kill_driver, kill_workers, stop_quietly, wait_at_random
from tests.service_helpers import Service, run_once


@pytest.mark.timeout(1800)
def test_a_service_goes_on_after_every_end(broker, tmp_path):
    every = Everything(broker, tmp_path, *SHORT)
    config, rng = every.config, random.Random(SEED)
    with answered(every):
        with Service(config) as service:
            service.until(every.has_nodes)
            every.turn()
            service.until(lambda: all(delivered(config).values()))
            every.turn()
            assert stop_quietly(service, times=3) == 0, service.said()
            assert "Trying again" not in service.said()
        through_ends(every, (kill_driver, Service.kill), rng)
    run_once(config)
    every.judge()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [1, 2])
def test_every_order_with_all_features_through_ten_kills(broker, tmp_path, seed):
    every = Everything(broker, tmp_path, *LONG, seed)
    rng = random.Random(seed)
    with answered(every):
        with Service(every.config) as service:
            service.until(every.has_nodes)
            every.turn()
            service.kill()
        for number in range(6):
            every.turn()
            with Service(every.config) as service:
                wait_at_random(service, rng, seconds=2)
                if number % 2:
                    kill_workers(service)
                    before = delivered(every.config)
                    every.turn()
                    service.until(lambda known=before: delivered(every.config) != known)
                (Service.kill, kill_driver)[number % 3 == 0](service)
        every.turn()
    run_once(every.config)
    every.judge()
