"""What becomes of topics while a service reads them (`outages`)."""

from __future__ import annotations

from tests.simulated.storage import TORN


def retention(history, rng):
    """Kafka deletes records of an input, read or not."""
    partition, share = rng.randrange(2), rng.random()

    def act():
        log = history.kafka.logs["in", partition]
        log.delete_before(round(log.end * share) + 1)
        begin, planned = history.position("in", partition)
        if planned is None or log.first > begin:
            readable = history.readable(("in", partition), planned)
            history.lose("InputLost", surely=readable is not None and log.first > readable)

    return f"records of in-{partition} are deleted", act


def compacted(history, rng):
    """The service dies, and Kafka compacts records away that the batch in doubt has read.

    Not while a broker is cut off, which still gives them to whom it may.
    """
    partition, count = rng.randrange(2), rng.choice([1, 3])

    def act():
        if any(broker.cut_off for broker in history.kafka.brokers):
            return
        for process in history.service.processes():
            process.kill()
        begin, planned = history.position("in", partition)
        log = history.kafka.logs["in", partition]
        there = log.between(begin, planned or 0)
        for entry in history.world.rng.sample(there, min(count, len(there))):
            log.entries.remove(entry)
            history.may_end |= {"InputChanged", "ProgressMissing"}

    return f"in-{partition} is compacted", act


def unclean_election(history, rng):
    """The end of an input's log is lost with its leader; others may be written in its place."""
    partition, share, again = rng.randrange(2), rng.random(), rng.random() < 0.5

    def act():
        log = history.kafka.logs["in", partition]
        _, planned = history.position("in", partition)
        if not log.open and history.kafka.can_move(("in", partition)):
            readable = history.readable(("in", partition), planned or 0)
            gone = log.cut_back(round(log.end * share), readable)
            history.kafka.move_leader(("in", partition))
            history.lose("InputLost", surely=log.end < (planned or 0))
            for entry in gone if again else ():
                if entry.producer < 0:
                    log.append(entry.data)

    return f"the end of in-{partition} is lost", act


def made_again(history, _rng):
    """An input is deleted, and made again."""

    def act():
        is_open = any(log.open for place, log in history.kafka.logs.items() if place[0] == "in")
        if history.storage.offsets and not is_open:
            history.kafka.make_again("in")
            is_planned = any(entry != TORN for entry in history.storage.offsets.values())
            history.lose("InputLost", surely=is_planned)

    return "the input is deleted and made again", act
