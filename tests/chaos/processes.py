"""Faults of a service's processes: killed, stopped, standing still; a second service beside it."""

import os
import re
import signal
import time
from contextlib import contextmanager, suppress

from tests.chaos.fault import Fault
from tests.faults.kills import kill_driver
from tests.processes import children, command_line, descendants, python_workers
from tests.service_helpers import STOP_SECONDS_MAX, Service

KILLED, STOPPED = (-signal.SIGKILL,), (0,)
UNLOCKED = {"SEQUENCER_FAULT": "unlocked"}
"""As on storage without locks."""
SECOND = "goes on; the second one ends with 1"
STILL_SECONDS = (5, 35, 75)
"""Short, longer than Kafka's connections and sessions wait, longer than its transactions do."""


def jvm(place):
    """The JVM's process."""
    found = children(place.service.process.pid)
    return [next(each for each in found if "java" in command_line(each)[:200])]


def fork_server(place):
    """The process that forks Python's daemons."""
    found = children(place.service.process.pid)
    return [next(each for each in found if "streaming.spark.fork_server" in command_line(each))]


def worker(place):
    """Some Python worker."""
    found = place.until(lambda: python_workers(place.service.process.pid))
    return [place.rng.choice(found)]


def driver(place):
    """The driver's process."""
    return [place.service.process.pid]


def everything(place):
    """All of the service's processes."""
    return [place.service.process.pid, *descendants(place.service.process.pid)]


PROCESSES = {
    "driver": driver,
    "JVM": jvm,
    "worker": worker,
    "fork server": fork_server,
    "service": everything,
}


def kill(found):
    """Kill -9 of the one process that is found."""

    @contextmanager
    def act(place):
        (process,) = found(place)
        os.kill(process, signal.SIGKILL)
        yield

    return act


@contextmanager
def driver_killed(place):
    """The others end by themselves."""
    kill_driver(place.service)
    yield


@contextmanager
def service_killed(place):
    """As where a host or a container ends."""
    place.service.kill()
    yield


@contextmanager
def service_stopped(place):
    """SIGTERM, and what it waits for."""
    place.service.send(signal.SIGTERM)
    place.service.wait(STOP_SECONDS_MAX)
    yield


def send_to(processes, number):
    """Send a signal to those that are there still."""
    for each in processes:
        with suppress(ProcessLookupError):
            os.kill(each, number)


def still(found):
    """SIGSTOP of the processes that are found, SIGCONT at the end."""

    @contextmanager
    def act(place):
        processes = found(place)
        send_to(processes, signal.SIGSTOP)
        try:
            yield
        finally:
            send_to(processes, signal.SIGCONT)

    return act


@contextmanager
def zombie(place):
    """A service stands still, another one is started in its place, then the first one goes on.

    On storage without locks, where Kafka alone keeps them apart. One of them goes on.
    """
    place.service.stop()
    place.start(environment=UNLOCKED)
    place.next_deliveries()
    old, processes = place.service, everything(place)
    send_to(processes, signal.SIGSTOP)
    try:
        place.start(environment=UNLOCKED)
        place.next_deliveries()
        yield
        send_to(processes, signal.SIGCONT)
        both = (old, place.service)
        loser = one_that_ends(both)
        place.service = both[1 - both.index(loser)]
        which = "old" if loser is old else "new"
        place.remarks.append(f"the {which} one ends with {loser.poll()}")
        assert loser.poll() == 1, loser.said()
        assert "nother copy" in loser.said(), loser.said()
        place.service.stop()
        place.start()  # with its lock again
    finally:
        send_to(processes, signal.SIGCONT)
        if place.service is not old:
            old.kill()


def one_that_ends(services):
    """Wait for one of two services to end."""
    deadline = time.monotonic() + STOP_SECONDS_MAX
    while all(each.poll() is None for each in services):
        assert time.monotonic() < deadline, "both go on"
        time.sleep(0.1)
    return next(each for each in services if each.poll() is not None)


def beside(config_of, sentence):
    """A second service is started beside it; it ends with 1 and a sentence, the first goes on."""

    @contextmanager
    def act(place):
        with Service(config_of(place)) as second:
            ended = place.until(lambda: None if second.poll() is None else [second.poll()])
            assert ended == [1], second.said()
            assert sentence in second.said(), second.said()
            assert "Traceback" not in second.said(), second.said()
        place.remarks.append("the second one ends with 1")
        yield

    return act


@contextmanager
def another_checkpoint(place):
    """A second service of the same name, whose checkpoint is elsewhere; the outputs are both theirs.

    A pipeline that finds the other's progress where it wrote last, or what is in transit cleaned
    by the other, stops, and its neighbours go on; so each stops in one of the two, or in both. A
    new checkpoint is what all of them can go on with.
    """
    place.spoiled.update(place.traffic.names)
    with Service(same_name(place)) as second:
        both, deadline = (place.service, second), time.monotonic() + STOP_SECONDS_MAX
        while {name for each in both for name in stopped_in(place, each)} != {*place.traffic.names}:
            assert time.monotonic() < deadline, [each.said() for each in both]
            time.sleep(0.1)
        assert all("Traceback" not in each.said() for each in both), [each.said() for each in both]
        place.remarks.append("each pipeline stops in one of the two, or in both")
        for each in both:
            each.stop()
    place.repeated = True
    place.config.write_text(same_name(place).read_text())
    place.start()
    yield


def stopped_in(place, service):
    """Pipelines that a service has stopped, since another one is at work on them."""
    why = "nother service of the name|nother copy|Input is lost"
    if service.poll() == 1 and re.search(why, service.said()):
        return place.traffic.names
    return re.findall(rf" error +(\S+): .*(?:{why}).* This pipeline is stopped", service.said())


def same_checkpoint(place):
    return place.config


def same_name(place):
    """The file of a service of the same name whose checkpoint is elsewhere."""
    text = place.config.read_text()
    folder = str(place.config.parent / "checkpoints")
    assert folder in text
    config = place.config.with_name("other.toml")
    config.write_text(text.replace(folder, f"{folder}-{time.monotonic_ns()}"))
    return config


FAULTS = (
    Fault("driver killed", driver_killed, KILLED),
    Fault("JVM killed", kill(jvm), (1,)),
    Fault("worker killed", kill(worker)),
    Fault("fork server killed", kill(fork_server)),
    Fault("service killed", service_killed, KILLED),
    Fault("service stopped", service_stopped, STOPPED),
    *(
        Fault(f"{name} stands still for {seconds} s", still(found), seconds=seconds)
        for name, found in PROCESSES.items()
        for seconds in STILL_SECONDS
    ),
    Fault("zombie", zombie, seconds=5, words="one of the two goes on, the other ends with 1"),
    Fault("a second copy on its checkpoint", beside(same_checkpoint, "Another copy"), words=SECOND),
    Fault(
        "a second service of its name, elsewhere",
        another_checkpoint,
        words="each pipeline stops in one of the two, or in both; what both wrote is there twice",
    ),
)
