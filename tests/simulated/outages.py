"""Faults of machines, disks and clocks: what comes to a history besides `faults`."""

from __future__ import annotations

import re

from tests.simulated.copies import back_up
from tests.simulated.spark import LOST, REPEATS
from tests.simulated.topic_outages import compacted, made_again, retention, unclean_election

HOUR = 3_600.0
VALUE = re.compile(rb"(?<=:)[0-9]")
"""What says which message a value is: most of so small a file is padding."""
DAMAGED = "it is not what was written"
FINDING_SECONDS = 3.0
UNSEEN_SECONDS = 20.0
"""So long a file stays damaged that nobody finds to be so."""


def away(history, rng):
    """All of Kafka is away, for longer than a request is repeated."""
    seconds = rng.choice([5, 70, 100])

    def act():
        history.heal_after(seconds)
        for broker in history.kafka.brokers:
            broker.up = False
        history.world.at(seconds, back)

    def back():
        for broker in history.kafka.brokers:
            history.kafka.start(broker.number)

    return f"Kafka is away for {seconds} s", act


def cut_off(history, rng):
    """A broker is cut off from the others, but not from its clients."""
    number, seconds = rng.randrange(3), rng.choice([1, 5, 15])

    def act():
        others = [b for b in history.kafka.brokers if b.up and not b.cut_off and b.number != number]
        if others and history.kafka.brokers[number].up:
            history.heal_after(seconds)
            history.kafka.cut_off(number)
            history.world.at(seconds, lambda: history.kafka.start(number))

    return f"cut off broker {number} for {seconds} s", act


def deposed_coordinator(history, rng):
    """A broker that coordinates is cut off for long, while workers die that write.

    Their successors may find nobody else who knows where coordinators are.
    """
    number, seconds, kills = rng.randrange(3), 15, 6
    finds, until = rng.random() < 0.5, [0.0]

    def fault(connection, request, fate):
        is_search = type(request).__name__.startswith("FindCoordinator")
        if is_search and connection.node != number and history.world.now < until[0]:
            fate.lost = True

    def act():
        if all(each.up and not each.cut_off for each in history.kafka.brokers):
            history.heal_after(seconds)
            history.kafka.cut_off(number)
            history.kafka.faults.append(fault)
            history.world.at(seconds, lambda: history.kafka.start(number))
            for turn in range(kills):
                history.world.at(0.5 + turn * 1.5 + rng.random(), kill)

    def kill(tries=3_000):
        there = history.service.driver.workers["sink"]
        busy = [each for each in there if each.alive and each.busy]
        if busy:
            history.world.rng.choice(busy).kill()
            until[0] = history.world.now + FINDING_SECONDS if finds else 0.0
        elif tries:
            history.world.at(0.001, lambda: kill(tries - 1))

    return f"cut off broker {number} and kill who writes", act


def deposed_finisher(history, rng):
    """A broker is cut off; later who ends transactions loses the coordinator, and finds that one."""
    number, seconds, count = rng.randrange(3), 15, rng.choice([1, 3])
    later_s = rng.choice([0.1, 0.5, 2])
    left, until = [None] * count, [0.0]

    def fault(connection, request, fate):
        kind, now = type(request).__name__, history.world.now
        if connection.node == number:
            return
        if kind.startswith("EndTxn") and left:
            left.pop()
            fate.held_s, fate.cut_s, until[0] = seconds, 0.001, now + FINDING_SECONDS
        elif kind.startswith("FindCoordinator") and now < until[0]:
            fate.lost = True

    def act():
        if all(each.up and not each.cut_off for each in history.kafka.brokers):
            history.heal_after(seconds)
            history.kafka.cut_off(number)
            history.world.at(later_s, lambda: history.kafka.faults.append(fault))
            history.world.at(seconds, lambda: history.kafka.start(number))

    return f"cut off broker {number}, which is found by who ends transactions", act


def cut_off_with_us(history, rng):
    """A broker and the service are cut off from the other brokers."""
    number, seconds, killed = rng.randrange(3), rng.choice([5, 15]), rng.random() < 0.5
    later_s = rng.choice([0, 0.5, 2])

    def fault(connection, _request, fate):
        if connection.node != number:
            fate.held_s, fate.cut_s = seconds, 0.01

    def act():
        others = [b for b in history.kafka.brokers if b.up and not b.cut_off and b.number != number]
        if others and history.kafka.brokers[number].up:
            history.heal_after(later_s + seconds)
            history.kafka.cut_off(number)
            history.world.at(later_s, us_too)
            history.world.at(later_s + seconds, lambda: history.kafka.back(number, fault))

    def us_too():
        history.kafka.faults.append(fault)
        if killed:
            history.service.driver.kill()

    return f"cut off broker {number} and the service for {seconds} s", act


def denied(history, rng):
    """Rights are withdrawn, and given back."""
    what, seconds = rng.choice(["topics", "ids", "groups"]), rng.random() * 2

    def act():
        history.kafka.denied.add(what)
        history.world.at(seconds, lambda: history.kafka.denied.discard(what))

    return f"no rights to {what} for {seconds:.1f} s", act


def disk_full(history, rng):
    """For a while what is written to the checkpoint fails, every other time."""
    seconds = rng.random() * 3

    def act():
        history.storage.broken_until = history.world.now + seconds

    return f"the disk is full for {seconds:.1f} s", act


def power_cut(history, _rng):
    """The machine of driver and workers loses its power."""

    def act():
        for process in history.service.processes():
            process.kill()
        if history.storage.lockable:
            history.storage.cut_power(history.world.rng)
            history.went_back()
            if not history.storage.synced:
                history.may_end |= {"CheckpointBehind", "JobFailed", "stalled"}

    return "a power cut", act


def clock_jump(history, rng):
    """The clock of the service's machine jumps, and some time later jumps back."""
    seconds = rng.choice([-HOUR, -10.0, 10.0, HOUR])

    def by(jump):
        history.service.clock_s += jump
        for process in history.service.processes():
            process.clock_s += jump

    def act():
        by(seconds)
        history.world.at(rng.random() * 2, lambda: by(-seconds))

    return f"the clock is off by {seconds:.0f} s", act


def another_copy(history, _rng):
    """Somebody starts the service once more; a lock, or Kafka, keeps the two apart."""

    def act():
        if history.storage.lockable:
            history.world.note("it is refused: the checkpoint is locked")
        elif history.service.ended is None:
            history.service.start()

    return "another copy is started", act


def restore_backup(history, rng):
    """The service is stopped, and goes on with a checkpoint of some time ago."""
    seconds = rng.random() * 2

    def act():
        if not history.storage.is_begun:
            return  # there is nothing to copy
        restore = back_up(history.storage)
        query, planned = history.storage.query(), history.storage.planned()

        def back():
            if planned < 0 and history.storage.query() != query:
                return  # it knows no batch, nor does the query go on: it is a new checkpoint
            for process in history.service.processes():
                process.kill()
            restore()
            history.may_end |= {"CheckpointBehind"}
            history.went_back()

        history.world.at(seconds, back)

    return f"a checkpoint of {seconds:.1f} s ago is restored", act


def restored_and_accepted(history, rng):
    """The same, and whoever looks after it accepts repeats."""
    text, act = restore_backup(history, rng)

    def accept():
        if history.storage.is_begun:
            history.repeats = True
            history.service.accepts |= {REPEATS}
            act()

    return f"{text}, repeats are accepted", accept


def lost_and_accepted(history, rng):
    """The service dies, Kafka deletes input, and both options are given."""
    partition, share = rng.randrange(2), rng.choice([0.5, 1.0])

    def act():
        if not history.storage.is_begun:
            return
        for process in history.service.processes():
            process.kill()
        log = history.kafka.logs["in", partition]
        log.delete_before(round(log.end * share))
        history.repeats = True
        history.may_end |= {"CheckpointBehind", "InputLost"}
        history.must_end = ""  # whatever was lost before is accepted, too
        history.service.accepts |= {REPEATS, LOST}

    return f"records of in-{partition} are gone, which is accepted", act


def kill_syncing(history, rng):
    """A worker dies while the disk writes a file of what is held."""
    count, seconds = rng.choice([1, 3]), rng.random() * 0.001

    def act():
        history.storage.at_sync += count * [die]

    def die(process):
        history.world.at(seconds, process.kill)

    return "kill a operator worker that waits for its disk", act


def damaged_file(history, rng):
    """A file of what is held is damaged; when that was seen, or never is, it is put back."""
    seconds = 3 + rng.random() * 5

    def put(path, content):
        new = path.with_name("new")
        new.write_bytes(content)
        new.replace(path)

    def act(tries=100):
        files = history.storage.disk.files()
        named = repr([*history.storage.state.values()][-4:])
        there = [path for path in sorted(files) if path.name in named]
        if not there:
            if tries and not history.healed:
                history.world.at(0.1, lambda: act(tries - 1))
            return
        history.world.note("it is damaged now")
        path = history.world.rng.choice(there)
        whole = history.storage.whole.setdefault(path, files[path])  # it may be damaged twice
        content = bytearray(files[path])
        places = [each.start() for each in VALUE.finditer(content)] or range(len(content))
        content[history.world.rng.choice(places)] ^= 0x04
        for process in history.service.processes():
            process.kill()
        put(path, bytes(content))
        back(path, whole, history.world.now + UNSEEN_SECONDS, len(history.world.log))

    def back(path, content, deadline, before):
        seen = any(DAMAGED in line for line in history.world.log[before:])
        if seen or history.world.now > deadline:
            if path.exists():
                put(path, content)
            return
        history.heal_after(seconds + 1)
        history.world.at(seconds, lambda: back(path, content, deadline, before))

    return "a file of what is held is damaged", act


OUTAGES = (
    *(away, cut_off, cut_off, cut_off_with_us, deposed_coordinator, deposed_finisher, denied),
    *(disk_full, disk_full),
    *(power_cut, power_cut, clock_jump, another_copy, another_copy),
    *(restore_backup, restore_backup, retention, compacted, unclean_election, made_again),
    *(damaged_file, kill_syncing, restored_and_accepted, lost_and_accepted),
)
UNNOTICED = (restore_backup, restored_and_accepted, lost_and_accepted, compacted)
"""What shows by the progress alone, of which there is none with delivery = "at-least-once"."""
