"""How Spark runs the tasks of a stage: what fails runs again, as often as it may.

An attempt that failed, or whose worker the driver lost sight of, may go on for some seconds beside
the next one. Where an executor is lost, so may be the output of the stage before: that runs again,
and each task that is not done begins once more, also where it still runs.
"""

from __future__ import annotations

from tests.simulated.world import wait

LEFT_SECONDS = 3.0
"""What the driver does not want any more, or left behind, lives for so long at most."""


class TaskFailed(Exception):  # noqa: N818  (as Spark says it)
    """A task of the batch failed for the last time, or its worker died."""


class Slot:
    """A partition of a stage: ``begin()`` begins an attempt, which is one task or several.

    ``result``: of the tasks of the first attempt that is done; None before that.
    """

    def __init__(self, begin):
        self.begin, self.failures, self.result = begin, 0, None
        self.attempts = [begin()]


def run_stage(driver, begins, fetch_again=lambda: False):
    """Run a stage: what the tasks of each partition return.

    TaskFailed where a partition has failed ``driver.service.tries`` times. ``fetch_again``: get the
    rows of an attempt that begins again; whether some had been lost.
    """
    slots = [Slot(begin) for begin in begins]
    for slot in slots:
        _watch(driver, slot.attempts[0])
    while True:
        for slot in slots:
            for attempt in [*slot.attempts]:
                why = failure(attempt)
                if why is not None:
                    _failed(driver, slots, slot, attempt, why, fetch_again)
        for slot in slots:
            _take(driver, slot)
        if all(slot.result is not None for slot in slots):
            return [result for slot in slots for result in slot.result]
        wait(0.5)


def failure(attempt):
    """Why an attempt has failed: an error of a task, or a text; None where it has not."""
    for task in attempt:
        if task.error is not None:
            return task.error
        if not task.done and (task.worker.lost or not task.worker.alive):
            return f"{task.worker.name} {'is lost' if task.worker.lost else 'died'}"
    return None


def _take(driver, slot):
    """Take the result of the first attempt that is done; others are not wanted any more."""
    done = [
        each for each in slot.attempts if all(task.done and task.error is None for task in each)
    ]
    if done and slot.result is None:
        slot.result = [task.result for task in done[0]]
        slot.attempts.remove(done[0])
        for each in slot.attempts:
            _cancel(driver, each, LEFT_SECONDS)
        slot.attempts = []


def _failed(driver, slots, slot, attempt, why, fetch_again):
    """Begin another attempt in the place of one that failed, where one is left."""
    if attempt not in slot.attempts:
        return
    slot.failures += 1
    if slot.failures >= driver.service.tries:
        for each in [tasks for every in slots for tasks in every.attempts]:
            _cancel(driver, each, 1.0)
        said = why if isinstance(why, str) else f"{type(why).__name__}: {why}"
        raise TaskFailed(said) from (None if isinstance(why, str) else why)
    driver.world.note(f"a task begins again, as {why!s:.200}")
    slot.attempts.remove(attempt)
    _cancel(driver, attempt, LEFT_SECONDS)
    is_lost = fetch_again()
    for each in slots if is_lost else [slot]:
        _take(driver, each)
        if each.result is None and (is_lost or not each.attempts):
            each.attempts.append(each.begin())
            _watch(driver, each.attempts[-1])


def _watch(driver, attempt):
    """Have the driver look when a task ends."""
    for task in attempt:
        task.waiters.append(lambda: driver.task.wake(driver.world.rng.expovariate(200)))


def _cancel(driver, attempt, seconds):
    """Spark ends what still runs, some time later: its worker goes with it."""
    for task in attempt:
        if not task.done and task.worker.alive:
            driver.world.at(driver.world.rng.random() * seconds, task.worker.kill)
