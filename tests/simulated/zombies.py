"""Faults of processes that go on when others have taken their place, each at the worst moment."""

from __future__ import annotations

from tests.simulated.spark import Driver

AT_WORK_SECONDS = 3.0
SETTLING_SECONDS = 0.3


def successor_begins(history, rng):
    """The last request before a commit arrives while a successor begins its session."""
    held_s, slow_s = rng.choice([0.3, 0.6, 1.0, 2.0]), rng.choice([0.3, 1.0, 2.0])
    first = []

    def fault(connection, request, fate):
        kind, name = type(request).__name__, getattr(request, "transactional_id", None)
        if isinstance(connection.network.process, Driver):
            return
        if kind == "TxnOffsetCommitRequest" and not first:
            first.append(name)
            fate.held_s = held_s
            history.service.driver.kill()
        elif kind == "InitProducerIdRequest" and name in first:
            fate.held_s = slow_s

    def act():
        history.service.restart_seconds = 0.05
        history.kafka.faults.append(fault)

    return "kill the driver before a commit, whose successor is slow", act


def copy_beside(history, rng):
    """Who has to ask once more whether its transaction ended stands still, and a copy takes over."""
    seconds = rng.choice([3.0, 10.0])
    first, paused = [], []

    def fault(connection, request, fate):
        process = connection.network.process
        if type(request).__name__ != "EndTxnRequest" or isinstance(process, Driver) or paused:
            return
        if not first:
            first.append(request.transactional_id)
            fate.cut_s = 0.05
        elif request.transactional_id in first:
            paused.append(process)
            process.pause(seconds)
            history.service.start()

    def act():
        if not history.storage.lockable and history.service.ended is None:
            history.kafka.faults.append(fault)

    return "another copy is started beside a sink that stands still", act


def slow_newcomers(history, rng):
    """New workers stand still before they do anything, and their driver dies meanwhile."""
    seconds = rng.choice([0.5, 1.0, 2.0])

    def meet(worker):
        if worker.name.startswith("operator") and history.world.rng.random() < 0.5:
            worker.pause(seconds * (0.5 + history.world.rng.random()))
            history.world.at(history.world.rng.random() * 0.3, history.service.driver.kill)

    def act():
        history.service.restart_seconds = 0.05
        history.service.newcomers.append(meet)
        history.service.driver.kill()
        history.world.at(AT_WORK_SECONDS, lambda: history.service.newcomers.remove(meet))

    return f"new operator workers stand still for {seconds} s, and the drivers die", act


def deposed_leader(history, rng):
    """A new driver finds only a broker that led all inputs, and does not know that it no longer does.

    The broker is cut off, and the service reads on from its successors; then a driver begins, and
    is cut off from all others when it has read the progress.
    """
    number, seconds = rng.randrange(3), rng.choice([3.0, 10.0])
    alone, before = [], []

    def fault(connection, request, fate):
        process = connection.network.process
        if not isinstance(process, Driver) or process is before[0]:
            return
        name = type(request).__name__
        if name == "MetadataRequest" and "in" in {each.name for each in request.topics}:
            if not alone:
                history.world.note("the driver finds the broker that led, and no other")
                history.heal_after(seconds)
                history.world.at(seconds, lambda: history.kafka.back(number, fault))
            alone.append(process)
        if alone and connection.node != number:
            fate.held_s, fate.cut_s = seconds, 0.01

    def act():
        if all(each.up and not each.cut_off for each in history.kafka.brokers):
            for place, log in history.kafka.logs.items():
                if place[0] in history.pipeline.plan.reads:
                    log.lead(number)
            history.world.at(SETTLING_SECONDS, cut)

    def cut():
        if all(each.up and not each.cut_off for each in history.kafka.brokers):
            history.kafka.cut_off(number)
            history.heal_after(AT_WORK_SECONDS + seconds)
            history.world.at(AT_WORK_SECONDS, begin)

    def begin():
        history.heal_after(AT_WORK_SECONDS + seconds)
        before.append(history.service.driver)
        history.service.restart_seconds = 0.05
        history.kafka.faults.append(fault)
        history.service.driver.kill()

    return f"a driver finds a deposed leader alone for {seconds} s", act


ZOMBIES = (successor_begins, copy_beside, slow_newcomers, deposed_leader)
