"""What is done to a service's state and topics beside its batches, in histories of `uses`.

Its state is moved to other shards and state partitions while it is stopped
(`streaming.service.rescale`); what its shards sent each other is deleted when it was read
(`streaming.service.offsets`).
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace

from streaming.arrow.totals import Totals
from streaming.disciplines import DISCIPLINES
from streaming.disciplines.channels.plan import ChannelPlan
from streaming.disciplines.channels.reshard import reshard as of_channels
from streaming.disciplines.discipline import StateMove
from streaming.disciplines.groups.batch.reshard import reshard as of_groups
from streaming.disciplines.groups.network.reshard import reshard as of_network
from streaming.disciplines.groups.network.route import first_ingress
from streaming.disciplines.groups.network.route import route as group_route
from streaming.disciplines.groups.plan import BatchPlan, NetworkPlan
from streaming.disciplines.multicast.batch.reshard import reshard as of_multicasts
from streaming.disciplines.multicast.plan import BatchMulticastPlan, MulticastPlan
from streaming.disciplines.multicast.protocol.reshard import reshard as of_protocol
from streaming.disciplines.multicast.protocol.route import route as multicast_route
from streaming.disciplines.plan import ExchangePlan
from streaming.disciplines.state_keys import shard_keys
from streaming.disciplines.state_row import StateRow
from streaming.errors import JobFailed, SequencerError
from streaming.service import offsets, rescale
from streaming.service.move_checks import require_same
from streaming.service.offsets import TransitCleaner
from tests.simulated import copies, ruled
from tests.simulated.long_lives import copied
from tests.simulated.outages import restore_backup, restored_and_accepted
from tests.simulated.registry import Registry
from tests.simulated.spark import keys_of
from tests.simulated.world import Process

MOVES = {
    ChannelPlan: StateMove(of_channels, timed=True),
    BatchPlan: StateMove(of_groups),
    NetworkPlan: StateMove(of_network),
    BatchMulticastPlan: StateMove(of_multicasts),
    MulticastPlan: StateMove(of_protocol),
}
ROUTES = {NetworkPlan: group_route, MulticastPlan: multicast_route}
SIZES = ((1, 1), (2, 2), (3, 2), (4, 3), (5, 1), (3, 3))
"""Shards and state partitions."""
WAITING_SECONDS = 0.02
WAITS_MAX = 500
CLEANED_SECONDS = 0.5
"""So often the moment is waited for at which no batch is under way."""


@dataclass
class NewCheckpoint:
    """What a move writes of the service's own files."""

    name: str
    values: dict = field(default_factory=dict)

    def query(self):
        """The id of the query that wrote the state."""
        return self.name

    def write_waiting(self, _waiting):
        """Nobody looks at it."""

    def write_decisions(self, values):
        """Keep them."""
        self.values["decisions"] = values

    def write_status(self, status):
        """Keep it."""
        self.values["status"] = status


def moved(history, rng):
    """The service is stopped between two batches, and its state is moved; it goes on with that."""
    shards, partitions = rng.choice(SIZES)
    is_clean, later_s = rng.random() < 0.8, rng.choice([0.0, 0.0, 0.5])

    def act(tries=WAITS_MAX):
        service, storage = history.service, history.storage
        if service.ended is not None or service.stopped:
            return
        is_between = storage.batch_in_doubt() < 0 and len(service.working()) == 1
        if storage.done() < 0 or (is_clean and not is_between):
            if tries and not history.healed:
                history.world.at(WAITING_SECONDS, partial(act, tries - 1))
            return
        service.stopped = True
        for driver in service.working():
            driver.kill()
        history.world.at(later_s, partial(Mover, history, (shards, partitions)))

    return f"the state is moved to {shards} shards, {partitions} state partitions", act


class Mover(Process):
    """The command that moves a state; when it has ended, or dies, the service is started again."""

    def __init__(self, history, size):
        service = history.service
        super().__init__(service.world, f"mover {len(service.world.processes)}")
        self.history, self.size, self.of = history, size, service
        self.clock_s = service.clock_s
        self.at_death.append(self._go_on)
        self.task = self.start(self._work)

    def _go_on(self):
        self.history.service.stopped = False

    def _work(self):
        try:
            self._move()
        except SequencerError as error:
            self.world.note(f"{self.name}: {type(error).__name__}: {str(error)[:300]}")
        finally:
            if self.alive:
                self._go_on()

    def _move(self):
        history = self.history
        storage, before = history.storage, history.service.plan
        storage.require_whole()
        written = self._written(before)
        rescale._require_done(storage, before, written[1])
        rows = [
            (key, StateRow.from_text(*row))
            for some in storage.last_state().values()
            for key, (row, _) in sorted(some.items())
        ]
        move = MOVES[type(before)]
        target = rescale.Target("there", *self.size)

        def to(partitions):
            after = moved_plan(before, self.size[0], partitions, self._folder(before))
            return None, after, move.reshard(before, after, rows)

        identity = SimpleNamespace(state_partitions=before.state_partitions)
        try:
            _, after, found = rescale._moved(
                to, "p", identity, target, self.world.note, stays=isinstance(before, ExchangePlan)
            )
        except ValueError as error:
            raise JobFailed(f"it cannot be moved: {error}") from error
        require_same(lambda: described(before, rows), lambda: described(after, found.rows), "p")
        new = NewCheckpoint(f"query-moved-{self.name.split()[1]}")
        rescale._carry_status(storage, new, found)
        if not storage.lockable and self._written(before) != written:
            raise JobFailed("A service was started meanwhile")
        self._open(after, move, found.rows, new)

    def _written(self, plan):
        storage = self.history.storage
        return storage.planned(), rescale._written(plan, lockable=storage.lockable)

    def _folder(self, plan):
        return f"{self.history.root}/{self.name}" if plan.folder else ""

    def _open(self, after, move, rows, new):
        """Put the new checkpoint in the place of the old one, at once."""
        storage = self.history.storage
        entry = storage.offsets[storage.done()]
        storage.purged |= {(self.name, at): each for at, each in storage.offsets.items()}
        keys = keys_of(after)
        due_ms = entry[1] + 1 if move.timed else None
        texts = {key: ((state.to_text(),), due_ms) for key, state in rows}
        storage.state, names = {}, {}
        for partition, some in keys.items():
            storage.named_states += 1
            names[partition] = storage.named_states
            held = {key: texts[key] for key in some if key in texts}
            storage.state[partition, 1, storage.named_states] = held
        storage.offsets, storage.commits = {0: entry}, {0: names}
        storage.named, storage.noted = {0: new.name}, 0
        storage.kept = storage.kept_before = json.dumps(new.values["decisions"])
        shards = new.values["status"]["shards"]
        storage.totals = {int(key): Totals(**each).to_json() for key, each in shards.items()}
        storage.written.clear()
        if after.folder:
            copies.move(storage, after.folder)
        self._tell(after)
        self.world.note(f"{self.name}: {after.shards} shards, {after.state_partitions} partitions")

    def _tell(self, after):
        """Have the service start with the new plan."""
        service, pipeline = self.history.service, self.history.pipeline
        size = {name: getattr(after, name) for name in ("shards", "state_partitions", "folder")}
        size |= {"ingress": after.ingress} if isinstance(after, NetworkPlan) else {}
        pipeline.plan = replace(pipeline.plan, **size)
        pipeline.others = [replace(each, **size) for each in pipeline.others]
        pipeline.making = making_of(pipeline.making, pipeline.plan)
        service.take(pipeline)


def moved_plan(plan, shards, partitions, folder):
    """A plan with other shards, as `planning.make_plan` makes it."""
    partitions = min(partitions, shards)
    few = not isinstance(plan, ChannelPlan)
    shards = min(shards, partitions) if few else shards
    after = replace(plan, shards=shards, state_partitions=partitions, folder=folder)
    if isinstance(plan, NetworkPlan):
        after = replace(
            replace(after, ingress={}), ingress=first_ingress(replace(after, ingress={}))
        )
    return after


def making_of(making, plan):
    """What packs records for the shards of a plan."""
    if type(plan) in ROUTES:
        return partial(making.func, plan=plan, route=ROUTES[type(plan)](plan))
    keys = shard_keys(plan.shards, plan.state_partitions)
    return partial(making.func, **{**making.keywords, "keys": keys})


def described(plan, rows):
    """What states say under a plan, as `insight.described` gives it."""
    discipline = DISCIPLINES[plan.discipline]
    read = discipline.describe(plan)
    found = [each for row in rows for each in read(*row)]
    return sorted(found, key=lambda item: str(item[discipline.key]))


# --- What shards sent each other.


class Steps:
    """What `streaming.service.behind.Behind` keeps."""

    def __init__(self):
        self.steps = []

    def read(self):
        """The steps."""
        return self.steps

    def write(self, steps):
        """Replace them."""
        self.steps = steps


def cleaner_for(history, kept_ms):
    """A cleaner of the transit topic, as the service makes one at each start."""
    times = SimpleNamespace(transit_kept=SimpleNamespace(ms=kept_ms))
    pipeline = SimpleNamespace(transit_topic="transit")
    config = SimpleNamespace(service=times, pipelines={"p": pipeline})

    def say(text, **_more):
        history.world.note(text)

    return TransitCleaner(config, "p", say, history.steps)


def delete_before(history, _config, topic, ends):
    """Have Kafka delete what was read."""
    for number, offset in ends.items():
        history.kafka.logs[topic, number].forget_before(offset)


def report(start):
    """What Spark says of a batch that began there."""
    return {"sources": [{"startOffset": json.dumps(start), "endOffset": "null"}]}


@contextmanager
def beside(history):
    """Have the history's Kafka delete what the service asks for."""
    before = offsets.topics
    offsets.topics = SimpleNamespace(delete_before=partial(delete_before, history))
    try:
        yield
    finally:
        offsets.topics = before


# --- What a history has of it.


def prepare(history, lives):
    """What the history has from its beginning; returned are the faults of its own that may come."""
    asked = history.uses
    if history.pipeline.by_schema:
        away_s = history.world.rng.choice([0.0, 0.0, 2.0])
        later_s = history.world.rng.random() * 2 * history.span
        history.service.registry = Registry(history.world, later_s, away_s)
        ruled.know(history.pipeline, history.service.registry)
    history.service.wakes = isinstance(history.pipeline.plan, ChannelPlan)
    if asked.cleaned_ms is not None and "transit" in history.pipeline.plan.reads:
        history.steps, cleaners = Steps(), {}

        def clean(driver, start):
            cleaner = cleaners.get(driver) or cleaners.setdefault(
                driver, cleaner_for(history, asked.cleaned_ms)
            )
            driver.post(
                history.world.rng.random() * CLEANED_SECONDS, partial(cleaner, report(start))
            )

        history.service.at_done = clean
    if asked.moves or asked.repeats:  # at least once nothing keeps two copies apart
        lives = tuple(each for each in lives if each is not copied)
    return (*lives, moved) if asked.moves else lives


def surely(history, rng):
    """Moves that come besides what the seed chooses, with their moments."""
    count = rng.choice([1, 1, 2]) if moved in history.lives else 0
    return [(rng.random() * history.span, moved(history, rng)) for _ in range(count)]


def fitting(faults, own):
    """Leave out what puts back a checkpoint that was moved meanwhile."""
    left_out = (restore_backup, restored_and_accepted) if moved in own else ()
    return tuple(each for each in faults if each not in left_out)
