"""What is done to a service: kills and pauses of its processes."""

import os
import random
import signal
import time
from contextlib import suppress

from tests.faults.kills import kill_driver
from tests.processes import children, command_line, python_workers
from tests.service_helpers import STOP_SECONDS_MAX


def jvm_of(service):
    """The JVM's process."""
    found = [p for p in children(service.process.pid) if "java" in command_line(p)[:200]]
    return found[0]


def fork_server_of(service):
    """The process that forks Python's daemons."""
    pid = service.process.pid
    return next(p for p in children(pid) if "streaming.service.fork_server" in command_line(p))


def worker_of(service, rng):
    """Some Python worker."""
    return rng.choice(python_workers(service.process.pid))


PROCESSES = {
    "driver": lambda service, _rng: service.process.pid,
    "JVM": lambda service, _rng: jvm_of(service),
    "worker": worker_of,
    "fork server": lambda service, _rng: fork_server_of(service),
}


def kill(name):
    """Kill -9 of one process."""

    def act(service, rng):
        if name == "driver":
            kill_driver(service)
        else:
            os.kill(PROCESSES[name](service, rng), signal.SIGKILL)

    return act


def pause(name, seconds):
    """SIGSTOP of one process, SIGCONT some time later."""

    def act(service, rng):
        process = PROCESSES[name](service, rng)
        os.kill(process, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)

    return act


def stop(service, _rng):
    """A clean stop."""
    service.send(signal.SIGTERM)
    assert service.wait(STOP_SECONDS_MAX) == 0, service.said()


FAULTS = {
    **{f"{name} killed": kill(name) for name in PROCESSES},
    "service killed": lambda service, _rng: service.kill(),
    "service stopped": stop,
    **{
        f"{name} paused {seconds} s": pause(name, seconds)
        for name in ("driver", "JVM", "worker")
        for seconds in (5, 35, 75)
    },
}
"""By name: what is done with a service and a random generator; ends when the fault does."""

SHORT = tuple(name for name in FAULTS if "35 s" not in name and "75 s" not in name)


def chosen(names, times, seed):
    """The faults, each so many times, in an order that the seed decides."""
    some = [name for name in names for _ in range(times)]
    random.Random(seed).shuffle(some)
    return some
