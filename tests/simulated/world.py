"""A clock, and processes that take turns: one thread, so a seed decides who is next.

A process is a set of greenlets with module globals of its own: what the service keeps in a worker
between batches (`KEPT`) must not be seen by another. A process that is killed never goes on; one
that is paused goes on later with all that came meanwhile.
"""

from __future__ import annotations

import heapq
import random
import sys
import time as real_time
from contextlib import contextmanager
from functools import cache, partial
from pkgutil import resolve_name

from greenlet import GreenletExit, getcurrent, greenlet

BEGAN_MS = 1_767_225_600_000
TURN_SECONDS = 1e-4
"""What a turn of a process takes at least, so that a loop without a wait moves the clock."""

KEPT = {
    "streaming.kafka.choice": ("_clusters",),
    "streaming.sink.writer": ("_writers",),
    "streaming.source.reader": ("_offset_bytes",),
    "streaming.disciplines.channels.shard_files": ("_swept", "_checked"),
    "streaming.disciplines.shards:ShardOperator": ("cores",),
}
"""Module globals, and attributes of a class, that belong to a process."""


class Dead(GreenletExit):
    """Ends a greenlet of a process that was killed, when its history is over."""


class World:
    """The clock (s), what happens next, and the processes; ``rng`` decides all that is open.

    ``drains``: no fault comes any more, and batches read all that there is.
    """

    drains = False

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.now = 0.0
        self.order = 0
        self.events = []
        self.processes = []
        self.hub = getcurrent()
        self.running = self.loaded = None
        self.log = []

    def at(self, seconds, act):
        """Have ``act`` called so many seconds from now."""
        self.order += 1
        heapq.heappush(self.events, (self.now + max(seconds, 0.0), self.order, act))

    def note(self, text):
        """Add a line to the history."""
        self.log.append(f"{self.now:9.4f} {text}")

    def run(self, until):
        """Let things happen until ``until()`` is true or nothing is left; whether it became so."""
        while self.events:
            if until():
                return True
            moment, _, act = heapq.heappop(self.events)
            self.now = max(self.now, moment)
            act()
        return until()

    def end(self):
        """End every greenlet that has not ended."""
        for process in self.processes:
            process.alive = False
            for task in process.tasks:
                if task and not task.dead:
                    self.give_turn(process, partial(task.throw, Dead))
        self._load(None)
        self.events.clear()

    def give_turn(self, process, go_on):
        """Have a process go on, with its own globals, until it waits."""
        before, self.running = self.running, process
        self._load(process)
        try:
            go_on()
        finally:
            self.running = before

    def _load(self, process):
        """Put a process's globals in the place of those of another, or of nobody."""
        if self.loaded is not process:
            for each in (self.loaded, process):
                if each is not None:
                    each.swap()
            self.loaded = process


class Process:
    """One process; ``clock_s`` is how far its wall clock is off."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        self.alive, self.paused_until, self.clock_s = True, 0.0, 0.0
        self.tasks = []
        self.at_death = []
        self.globals = [type(getattr(*place))() for place in _kept()]
        world.processes.append(self)

    def swap(self):
        """Exchange the globals in use and those kept here."""
        for number, (owner, name) in enumerate(_kept()):
            before = getattr(owner, name)
            setattr(owner, name, self.globals[number])
            self.globals[number] = before

    def post(self, seconds, act):
        """Have the process do ``act`` later, if it lives then, and not before it goes on."""

        def due():
            if not self.alive:
                return
            if self.paused_until > self.world.now:
                self.world.at(self.paused_until - self.world.now, due)
                return
            act()

        self.world.at(seconds, due)

    def start(self, work):
        """Run ``work()`` as a task of the process; a Task to wait for."""
        task = Task(self, work)
        self.tasks = [other for other in self.tasks if not other.dead]
        self.tasks.append(task.greenlet)
        self.post(TURN_SECONDS, task.go_on)
        return task

    def kill(self):
        """End it at once, as kill -9 does: nothing in it runs any more."""
        if self.alive:
            self.alive = False
            self.world.note(f"{self.name} is killed")
            for act in self.at_death:
                act()

    def pause(self, seconds):
        """Stop it for a while; what comes meanwhile waits."""
        self.world.note(f"{self.name} stands still for {seconds:.1f} s")
        self.paused_until = max(self.paused_until, self.world.now + seconds)


class Task:
    """A greenlet of a process; ``result`` or ``error`` when it is ``done``."""

    def __init__(self, process, work):
        self.process, self.world = process, process.world
        self.done, self.result, self.error = False, None, None
        self.waiters = []
        self.wake_order = 0
        self.greenlet = greenlet(lambda: self._run(work), parent=self.world.hub)
        self.greenlet.task = self

    def _run(self, work):
        try:
            self.result = work()
        except Dead:
            return
        except Exception as error:  # noqa: BLE001  (who waits for it looks)
            self.error = error
        self.done = True
        for act in self.waiters:
            act()

    def go_on(self):
        """Give it a turn, from the hub."""
        if not self.done and not self.greenlet.dead:
            self.world.give_turn(self.process, self.greenlet.switch)

    def wake(self, seconds=0.0):
        """Give it a turn later, unless it was woken meanwhile."""
        order = self.wake_order
        self.process.post(seconds, lambda: self.wake_order == order and self._woken())

    def _woken(self):
        self.wake_order += 1
        self.go_on()


def current():
    """The task that runs."""
    return getcurrent().task


def wait(seconds):
    """Let others go on, for so long or until somebody wakes this task."""
    task = current()
    if not task.process.alive:
        raise Dead
    task.wake(max(seconds, TURN_SECONDS))
    task.world.hub.switch()


class Pipe:
    """Rows from one process to another; ends well, or is cut off."""

    def __init__(self, world):
        self.world, self.rows = world, []
        self.ended = self.cut = False
        self.reader = None

    def put(self, row):
        """Add a row."""
        self.rows.append(row)
        self._wake()

    def end(self, *, cut=False):
        """Say that nothing more comes."""
        self.ended, self.cut = True, cut
        self._wake()

    def _wake(self):
        if self.reader is not None:
            self.reader.wake(self.world.rng.expovariate(500))

    def __iter__(self):
        """The rows; EOFError where the writer was cut off."""
        self.reader = current()
        while True:
            while self.rows:
                yield self.rows.pop(0)
            if self.ended:
                break
            wait(3600)
        if self.cut:
            raise EOFError("the stream was cut off")


class Clock:
    """What stands in for the module `time`."""

    def __init__(self, world):
        self.world = world

    def monotonic(self):
        """Seconds."""
        return self.world.now + 1_000

    perf_counter = monotonic

    def time(self):
        """Seconds since 1970, as the process that asks has them."""
        process = self.world.running
        return BEGAN_MS / 1000 + self.world.now + (process.clock_s if process else 0.0)

    def sleep(self, seconds):
        """Wait."""
        until = self.world.now + seconds
        while self.world.now < until:
            wait(until - self.world.now)

    def __getattr__(self, name):
        return getattr(real_time, name)


@contextmanager
def simulated_time(world):
    """Have the service's modules ask this world for the time."""
    clock, modules = Clock(world), _timed(len(sys.modules))
    for module in modules:
        module.time = clock
    try:
        yield
    finally:
        for module in modules:
            module.time = real_time


@cache
def _timed(_count):
    """The service's modules that ask for the time; looked for again when there are more modules."""
    return [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("streaming.") and getattr(module, "time", None) is real_time
    ]


@cache
def _kept():
    found = []
    for owner_name, names in KEPT.items():
        owner = resolve_name(owner_name)
        found += [(owner, name) for name in names]
    return found
