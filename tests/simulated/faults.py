"""Faults that come to a history: each gives what it is, and what makes it happen."""

from __future__ import annotations

from functools import partial


def kill_driver(history, _rng):
    """The driver dies; another one starts while workers of the old one still run."""

    def act():
        history.service.driver.kill()

    return "kill the driver", act


def kill_worker(history, rng):
    """A worker dies."""
    stage = rng.choice(["source", "operator", "sink", "sink"])

    def act():
        alive = [each for each in history.service.driver.workers[stage] if each.alive]
        if alive:
            history.world.rng.choice(alive).kill()

    return f"kill a {stage} worker", act


def kill_busy(history, rng):
    """A worker dies in the middle of a task."""
    stage = rng.choice(["operator", "sink"])

    def act(tries=2_000):
        busy = [w for w in history.service.driver.workers[stage] if w.alive and w.busy]
        if busy:
            history.world.rng.choice(busy).kill()
        elif tries and not history.healed:
            history.world.at(0.001, lambda: act(tries - 1))

    return f"kill a {stage} worker at work", act


def pause(history, rng):
    """A process stands still, and goes on when others have taken its place."""
    seconds = rng.choice([1, 5, 35, 75])
    stage = rng.choice([None, "operator", "sink", "sink"])
    killed = rng.random() < 0.5

    def act():
        driver = history.service.driver
        workers = [each for each in driver.workers[stage] if each.alive] if stage else []
        target = history.world.rng.choice(workers) if workers else driver
        target.pause(seconds)
        if killed:  # somebody takes the service for dead, and starts it again
            history.world.at(rng.random() * 2, driver.kill)

    return f"pause {stage or 'the driver'} for {seconds} s", act


def move_leader(history, rng):
    """A partition gets another leader."""
    place = rng.choice(sorted(history.kafka.logs))
    return f"move the leader of {place}", lambda: history.kafka.move_leader(place)


def restart_broker(history, rng):
    """A broker goes down and comes back."""
    number, seconds = rng.randrange(3), rng.random() * 4

    def act():
        if sum(broker.up for broker in history.kafka.brokers) > 1:
            history.kafka.stop(number)
            history.world.at(seconds, lambda: history.kafka.start(number))

    return f"restart broker {number}", act


def move_coordinator(history, _rng):
    """A coordinator moves."""

    def act():
        if history.kafka.homes:
            key = history.world.rng.choice(sorted(history.kafka.homes))
            history.kafka.move_coordinator(key)

    return "move a coordinator", act


def bad_network(history, rng):
    """For some seconds some requests are held back, answered late, lost, or cut off."""
    seconds, chance = rng.random() * 5, rng.choice([0.02, 0.1, 0.3])
    kinds = rng.sample(["held", "slow", "lost", "cut"], rng.randrange(1, 4))
    only = rng.choice([None, None, "EndTxn", "Produce", "TxnOffsetCommit", "AddPartitionsToTxn"])

    def fault(_connection, request, fate):
        name = type(request).__name__.removesuffix("Request")
        if (only is not None and name != only) or rng.random() >= chance:
            return
        kind = rng.choice(kinds)
        if kind == "held":
            fate.held_s = rng.choice([0.2, 2.0, 10.0])
            fate.cut_s = rng.random() * fate.held_s if rng.random() < 0.5 else None
        elif kind == "slow":
            fate.slow_s = rng.choice([0.05, 0.5, 3.0])
        elif kind == "lost":
            fate.lost = True
        else:
            fate.cut_s = rng.random() * 0.01

    def act():
        history.kafka.faults.append(fault)
        history.world.at(seconds, lambda: history.kafka.end(fault))

    return f"a bad network ({', '.join(kinds)}; {only or 'all requests'})", act


def slow_answer_and_move(history, rng):
    """A partition's leader moves while a request to it is unanswered."""
    name, seconds = rng.choice(["Produce", "Produce", "Fetch"]), rng.choice([0.15, 0.3])
    left = [rng.choice([1, 3])]

    def fault(_connection, request, fate):
        if type(request).__name__ != name + "Request" or not left[0]:
            return
        left[0] -= 1
        fate.slow_s = seconds * (0.5 + rng.random())
        topics = request.topic_data if name == "Produce" else request.topics
        names = {each.name if name == "Produce" else each.topic for each in topics}
        moment = rng.random() * seconds
        for place in sorted(history.kafka.logs):
            if place[0] in names:
                history.world.at(moment, partial(history.kafka.move_leader, place))

    return f"a slow {name} while leaders move", lambda: history.kafka.faults.append(fault)


def moved_behind_a_slow_answer(history, rng):
    """Leaders move when a batch has just been written, whose answer comes late.

    The client hears of it from another partition's leader, while the answer is still to come.
    """
    skipped, slow_s = [rng.randrange(10) for _ in range(6)], rng.choice([0.15, 0.3, 0.6])

    def fault(_connection, request, fate):
        if type(request).__name__ != "ProduceRequest" or not skipped:
            return
        skipped[-1] -= 1
        if skipped[-1] < 0:
            skipped.pop()
            fate.slow_s = slow_s * (0.5 + rng.random())
            names = {each.name for each in request.topic_data}
            history.world.at(3 * history.kafka.delay, lambda: move(names))

    def move(names):
        for place in sorted(history.kafka.logs):
            if place[0] in names:
                history.kafka.move_leader(place)

    return "leaders move behind a slow Produce", lambda: history.kafka.faults.append(fault)


def late_request(history, rng):
    """One request of a transaction arrives long after its client asked again."""
    name = rng.choice(LATE)
    held_s, left = rng.choice([0.3, 1.0, 2.0, 5.0]), [1]

    def fault(_connection, request, fate):
        if type(request).__name__ == name + "Request" and left:
            left.pop()
            fate.held_s, fate.cut_s = held_s, rng.random() * 0.02

    return f"a late {name}", lambda: history.kafka.faults.append(fault)


def late_into_next(history, rng):
    """One request of a transaction arrives in the middle of the next one of the same id."""
    name, held, cut_s = rng.choice(LATE), [], rng.random() * 0.02
    moment = rng.choice([0.001, 0.01, 0.05])
    first = []

    def fault(_connection, request, fate):
        kind = type(request).__name__.removesuffix("Request")
        of = getattr(request, "transactional_id", None)
        if kind == name and not first and of is not None:
            first.append(of)
            fate.held_s, fate.cut_s, fate.held = HELD_SECONDS, cut_s, held
        elif kind == "Produce" and held and of == first[0] and history.world.now > since[0]:
            history.world.at(rng.expovariate(1 / moment), held.pop())
        elif kind == "AddPartitionsToTxn" and first:
            since[0] = history.world.now

    since = [float("inf")]
    return f"a {name} arrives in the next transaction", lambda: history.kafka.faults.append(fault)


def coordinator_moves_within(history, rng):
    """A coordinator moves while a transaction is open."""
    left, moment = [rng.choice([1, 3])], rng.choice([0.005, 0.05])

    def fault(_connection, request, _fate):
        if type(request).__name__ == "ProduceRequest" and request.transactional_id and left[0]:
            left[0] -= 1
            key = (1, request.transactional_id)
            history.world.at(
                rng.expovariate(1 / moment), lambda: history.kafka.move_coordinator(key)
            )

    return "coordinators move within transactions", lambda: history.kafka.faults.append(fault)


HELD_SECONDS = 8.0
LATE = ("EndTxn", "EndTxn", "AddPartitionsToTxn", "TxnOffsetCommit", "Produce", "InitProducerId")

FAULTS = (
    *(kill_driver, kill_worker, kill_busy, kill_busy, pause),
    *(move_leader, restart_broker, move_coordinator, bad_network, bad_network),
    *(slow_answer_and_move, slow_answer_and_move, moved_behind_a_slow_answer),
    *(late_request, late_request),
    *(late_into_next, late_into_next, coordinator_moves_within),
)
