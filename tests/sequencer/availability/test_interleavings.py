"""Every order in which the loads and compare-and-swaps of several publishers can fall."""

import random
import threading

import pytest

from sequencer.availability.atomic import AtomicWord
from sequencer.availability.concurrent import Availability

LIMIT_S = 20


class Stepper:
    """Runs threads one step at a time: a thread stops before each step until it is let on."""

    def __init__(self, jobs):
        self.stopped = threading.Semaphore(0)
        self.let_on = [threading.Semaphore(0) for _ in jobs]
        self.live = set(range(len(jobs)))
        self.here = threading.local()
        self.errors = []
        self.threads = [
            threading.Thread(target=self._run, args=(n, job), daemon=True)
            for n, job in enumerate(jobs)
        ]
        for thread in self.threads:
            thread.start()
        for _ in self.threads:
            assert self.stopped.acquire(timeout=LIMIT_S)

    def _run(self, number, job):
        self.here.number = number
        self.stop()
        try:
            job()
        except BaseException as error:  # noqa: BLE001  (shown by the test, not by the thread)
            self.errors.append(error)
        self.live.discard(number)
        self.stopped.release()

    def stop(self):
        number = getattr(self.here, "number", None)
        if number is not None:  # the test's own thread looks without stopping
            self.stopped.release()
            assert self.let_on[number].acquire(timeout=LIMIT_S)

    def step(self, number):
        self.let_on[number].release()
        assert self.stopped.acquire(timeout=LIMIT_S)


class SteppedWord(AtomicWord):
    """An atomic word whose every access is one step."""

    __slots__ = ("stepper", "swaps_lost")

    def __init__(self):
        super().__init__()
        self.stepper = None
        self.swaps_lost = 0

    def load(self):
        if self.stepper:
            self.stepper.stop()
        return super().load()

    def compare_exchange(self, expected, desired):
        self.stepper.stop()
        done = super().compare_exchange(expected, desired)
        self.swaps_lost += not done
        return done


def run(publishers, choose):
    """One run; ``choose(live)`` picks who steps next. Returns the schedule as (choice, live)."""
    cell = SteppedWord()
    topic = Availability(cell=cell)
    reserved, published, wrong = [], set(), []

    def publisher():
        message_id = topic.try_reserve_next()
        reserved.append(message_id)
        if not topic.try_make_available(message_id):
            wrong.append(f"{message_id} was not published")
        published.add(message_id)

    stepper = cell.stepper = Stepper([publisher] * publishers)
    schedule = []
    while stepper.live:
        live = sorted(stepper.live)
        chosen = choose(len(schedule), live)
        schedule.append((chosen, live))
        stepper.step(chosen)
        there = {i for i in range(publishers) if topic.is_available(i)}
        if not published <= there:
            wrong.append(f"{published - there} published and then lost")
    for thread in stepper.threads:
        thread.join(LIMIT_S)
    assert not stepper.errors
    assert not wrong, schedule
    assert sorted(reserved) == list(range(publishers)), f"ids given twice or left out: {schedule}"
    assert topic.word == publishers << 16 | (1 << publishers) - 1, schedule
    return schedule, cell.swaps_lost


def every_schedule(run_one):
    """All schedules, depth first: ``run_one(choose)`` runs one and returns it."""
    prefix = []
    while True:
        schedule = run_one(lambda n, live: prefix[n] if n < len(prefix) else live[0])  # noqa: B023  (used at once)
        while schedule and schedule[-1][0] == schedule[-1][1][-1]:
            schedule.pop()  # all choices at this point were taken
        if not schedule:
            return
        chosen, live = schedule.pop()
        prefix = [c for c, _ in schedule] + [live[live.index(chosen) + 1]]


def test_all_interleavings_of_two_publishers():
    lost = []

    def run_one(choose):
        schedule, swaps_lost = run(2, choose)
        lost.append(swaps_lost)
        return schedule

    every_schedule(run_one)
    assert len(lost) > 70  # C(8, 4) orders of four steps each, and more where a swap is lost
    assert sum(lost) > 0, "no interleaving made a compare-and-swap fail: nothing was tested"


def reserve_on(topic, wanted):
    """``wanted``: an id of one's own, or None for the next one."""
    return topic.try_reserve_next() if wanted is None else topic.reserve(wanted)


def one_after_the_other(first, second):
    """Results in the order of the arguments, and what became of the topic."""
    topic = Availability()
    results = [reserve_on(topic, first), reserve_on(topic, second)]
    return results, topic.word, topic.first


@pytest.mark.parametrize(
    "wanted",
    [(1000, 1003), (1000, None), (3, 1000), (1000, 1000), (1003, 2), (1000, 2000)],
    ids=str,
)
def test_all_interleavings_of_two_that_begin_a_topic(wanted):
    """Whoever is first says where the topic begins: the outcome is that of one after the other."""
    (there, *rest), (swapped, *swapped_rest) = (
        one_after_the_other(*wanted),
        one_after_the_other(*reversed(wanted)),
    )
    allowed = [(there, *rest), (swapped[::-1], *swapped_rest)]
    seen, lost = [], []

    def run_one(choose):
        cell, origin = SteppedWord(), SteppedWord()
        topic = Availability(cell=cell, origin=origin)
        results = [None, None]

        def reserver(number):
            results[number] = reserve_on(topic, wanted[number])

        stepper = Stepper([lambda: reserver(0), lambda: reserver(1)])
        cell.stepper = origin.stepper = stepper
        schedule, ends = [], []
        while stepper.live:
            live = sorted(stepper.live)
            schedule.append((choose(len(schedule), live), live))
            stepper.step(schedule[-1][0])
            ends.append(topic.end)
        assert not stepper.errors
        assert ends == sorted(ends), f"end went back: {ends} in {schedule}"
        outcome = (results, topic.word, topic.first)
        assert outcome in allowed, schedule
        seen.append(outcome)
        lost.append(cell.swaps_lost + origin.swaps_lost)
        return schedule

    every_schedule(run_one)
    assert all(outcome in seen for outcome in allowed), "only one of the two was ever first"
    assert sum(lost) > 0, "no interleaving made a compare-and-swap fail: nothing was tested"


@pytest.mark.parametrize("publishers", [3, 5])
def test_random_interleavings_of_more_publishers(publishers):
    swaps_lost = 0
    for seed in range(60):
        rng = random.Random(seed)
        swaps_lost += run(publishers, lambda _, live: rng.choice(live))[1]  # noqa: B023  (used at once)
    assert swaps_lost > 0
