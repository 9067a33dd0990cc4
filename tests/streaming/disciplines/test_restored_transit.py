"""An older checkpoint goes on under a new incarnation, beside what lost batches left in transit."""

import random
from collections import Counter, defaultdict
from copy import deepcopy
from dataclasses import replace

import pytest

from streaming.disciplines.groups.network.core import NetworkOperator
from streaming.disciplines.groups.network.route import first_ingress, route
from streaming.disciplines.groups.plan import NetworkPlan
from streaming.errors import CheckpointBehind
from streaming.service import histories
from streaming.service.checkpoint import Checkpoint
from streaming.service.decisions import Decisions
from tests.seeds import seeds
from tests.streaming.disciplines.multicast.floors import floor_for
from tests.streaming.exchange_harness import Floor, exchange_plan, given_topics
from tests.streaming.service.kept_progress import with_producers
from tests.streaming.verify.group_worlds import random_groups
from tests.streaming.verify.multicast_worlds import random_multicasts


def network(seed):
    world = random_groups(seed, commands=0, steps=60)
    members = {name: tuple(sorted(some)) for name, some in world.configured.items()}
    plan = exchange_plan(NetworkPlan, groups=members, nodes=3)
    plan = replace(plan, ingress=first_ingress(plan))
    return Floor(plan, NetworkOperator(plan), route(plan), given_topics(world), seed)


def clock(seed):
    return floor_for(random_multicasts(seed, steps=60, commands=0, order="clock"), seed)


def counter(seed):
    return floor_for(random_multicasts(seed, steps=60, commands=0, order="counter"), seed)


def delivered(records):
    """How often each key got each content from each sender."""
    found = Counter()
    for record in records:
        headers = dict(record.headers)
        found[record.key, headers.get("sender", headers.get("from")), record.value] += 1
    return found


def written(floor, batches):
    """Run batches; return the deliveries that they wrote."""
    ends = {place: len(there) for place, there in floor.topics.records.items()}
    for _ in range(batches):
        floor.batch()
    return [
        record
        for place, there in floor.topics.records.items()
        if place[0] == "out"
        for record in there[ends.get(place, 0) :]
    ]


def put_back(floor, backup, renewals):
    """Go on from a backup; ``renewals``: those that it knows, to which this one is added."""
    floor.read, floor.states, floor.batches = backup
    floor.now_ms += 5
    renewals.append((floor.now_ms, floor.batches))
    floor.plan = floor.operator.plan = replace(floor.operator.plan, renewals=tuple(renewals))


@pytest.mark.parametrize("seed", seeds(2, 60))
@pytest.mark.parametrize("made", [network, clock, counter])
def test_what_lost_batches_sent_between_shards_is_passed_over(made, seed):
    """Also where the same input falls into other batches, and where it happens again."""
    rng, undisturbed, floor = random.Random(seed), made(seed), made(seed)
    undisturbed.run()
    lost, renewals = [], []
    for _ in range(2):
        for _ in range(rng.randrange(1, 6)):
            floor.batch()
        kept = floor.read.copy(), deepcopy(floor.states), floor.batches
        lost += written(floor, rng.randrange(1, 6))
        put_back(floor, kept, renewals)
    floor.run()
    own = [each for each in floor.topics.all("out") if each not in lost]
    assert delivered(own) == delivered(undisturbed.topics.all("out"))
    sequences = defaultdict(list)
    for record in floor.topics.all("out"):
        headers = dict(record.headers)
        sequences[record.key, headers["incarnation"]].append(int(headers["sequence"]))
    for name, numbers in sequences.items():
        assert numbers == [*range(len(numbers))], name


@pytest.mark.parametrize("seed", seeds(4, 60))
@pytest.mark.parametrize("made", [network, clock, counter])
def test_what_a_history_sent_that_the_backup_does_not_know_is_passed_over(made, seed):
    """A backup is put back, and after some batches a newer one, which was made before."""
    rng, undisturbed, floor = random.Random(seed), made(seed), made(seed)
    undisturbed.run()
    backups = []
    for _ in range(2):
        for _ in range(rng.randrange(1, 6)):
            floor.batch()
        backups.append((floor.read.copy(), deepcopy(floor.states), floor.batches))
    put_back(floor, backups[0], [])
    lost = written(floor, rng.randrange(1, 10))
    put_back(floor, backups[1], [])
    floor.run()
    own = [each for each in floor.topics.all("out") if each not in lost]
    assert delivered(own) == delivered(undisturbed.topics.all("out"))


@pytest.mark.parametrize("seed", seeds(2, 60))
@pytest.mark.parametrize("made", [network, clock, counter])
def test_at_least_once_an_older_checkpoint_is_found_by_what_is_in_transit(made, seed):
    """It has no progress that could tell; where lost batches sent nothing, nothing is lost."""
    rng, undisturbed, floor = random.Random(seed), made(seed), made(seed)
    undisturbed.run()
    operator = floor.operator
    operator.plan = operator.configured = replace(operator.plan, delivery="at-least-once")
    operator.context = replace(operator.context, query="q")
    for _ in range(rng.randrange(1, 6)):
        floor.batch()
    kept = floor.read, floor.states, floor.batches
    floor.read, floor.states = floor.read.copy(), deepcopy(floor.states)
    written(floor, rng.randrange(1, 6))
    floor.read, floor.states, floor.batches = deepcopy(kept)
    try:
        floor.batch(whole=True)  # what is in transit is read to its end
    except CheckpointBehind:
        put_back(floor, kept, [])
    floor.run()
    missing = delivered(undisturbed.topics.all("out")) - delivered(floor.topics.all("out"))
    assert not missing


@pytest.mark.parametrize("seed", seeds(2, 60))
@pytest.mark.parametrize("made", [network, clock, counter])
@pytest.mark.parametrize("is_cleaned", [True, False], ids=["what was read is gone", "all is there"])
def test_what_another_checkpoint_left_in_transit_is_passed_over(
    monkeypatch, made, seed, is_cleaned, tmp_path
):
    with_producers(monkeypatch, {}, set())
    rng, undisturbed, floor = random.Random(seed), made(seed), made(seed)
    undisturbed.run()
    left = written(floor, rng.randrange(1, 6))
    is_transit = {place: is_cleaned and place[0] == "transit" for place in floor.read}
    floor.read = {place: at for place, at in floor.read.items() if is_transit[place]}
    floor.states, floor.batches = {}, 0
    checkpoint = Checkpoint(str(tmp_path), "p")
    for _ in range(2):  # the first one ends before it plans anything
        histories.settle(floor.plan, checkpoint, print, accept_repeats=False)
    begun = tuple(map(tuple, Decisions(checkpoint).renewals))
    floor.plan = floor.operator.plan = replace(floor.operator.plan, renewals=begun)
    floor.run()
    own = [each for each in floor.topics.all("out") if each not in left]
    assert delivered(own) == delivered(undisturbed.topics.all("out"))


def move(floor):
    """Move the state to a new checkpoint of as many shards; its batches begin with 1."""
    before = floor.operator.plan.batches_before + floor.batches - 1
    floor.plan = floor.operator.plan = replace(floor.operator.plan, batches_before=before)
    floor.batches = 1


@pytest.mark.parametrize("seed", seeds(2, 60))
@pytest.mark.parametrize("made", [network, clock, counter])
def test_repeats_accepted_behind_a_move_lose_nothing_that_was_in_transit(made, seed):
    undisturbed, floor = made(seed), made(seed)
    undisturbed.run()
    written(floor, 5)
    move(floor)
    renewed = ((floor.now_ms, floor.operator.plan.batches_before + 1),)
    floor.plan = floor.operator.plan = replace(floor.operator.plan, renewals=renewed)
    floor.run()
    assert delivered(floor.topics.all("out")) == delivered(undisturbed.topics.all("out"))


@pytest.mark.parametrize("seed", seeds(2, 60))
@pytest.mark.parametrize("made", [network, clock, counter])
def test_a_backup_from_before_a_move_passes_over_what_came_behind_it(made, seed):
    rng, undisturbed, floor = random.Random(seed), made(seed), made(seed)
    undisturbed.run()
    written(floor, rng.randrange(1, 6))
    kept, plan = (floor.read.copy(), deepcopy(floor.states), floor.batches), floor.operator.plan
    lost = written(floor, rng.randrange(1, 4))
    move(floor)
    lost += written(floor, rng.randrange(1, 4))
    floor.operator.plan = plan
    put_back(floor, kept, [])
    floor.run()
    own = [each for each in floor.topics.all("out") if each not in lost]
    assert delivered(own) == delivered(undisturbed.topics.all("out"))
