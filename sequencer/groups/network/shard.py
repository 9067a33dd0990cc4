"""A shard of the network of ordered groups: ingresses, atoms and receivers that live in one place.

"Decentralized Message Ordering for Publish/Subscribe Systems", section 3, on shards that exchange
batches: what goes from one shard to another must arrive once and in order, and every shard gets
the same changes of groups in the same batch, at the same places among what is published in it.
So all ingresses end their old lines at one place of the order of arrival, each with a last message
behind what it numbered before. A batch is taken as a whole: counting replaces the loop over
messages and atoms.

This form is the service's `sequencing = "network"`; the simulation runs the one by message
(ordering.py), and tests/sequencer/groups/network/test_both_forms.py holds both together.
Atoms of shards do not retire one by one: they go with their view.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sequencer.groups.network.hops import DELIVER, Hops, appended
from sequencer.groups.network.receivers import Receivers
from sequencer.groups.network.routes import Change, Directory
from sequencer.groups.network.tables import Tables, tables
from sequencer.ragged import Ints, Ragged
from sequencer.sorting import order_by, ranks

UNKNOWN_GROUP = "unknown-group"
REMOVED_GROUP = "removed-group"


@dataclass(frozen=True, slots=True)
class ShardMap:
    """Where things live: the number of this shard, and functions that all shards agree on.

    ``ingress`` gives the shard that numbers a group's messages, ``home`` that of a subscriber.
    """

    shard: int
    ingress: Callable[[str], int]
    home: Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Stepped:
    """The result of a batch: messages for other shards, deliveries in order.

    ``delivered`` has no last messages; ``ended`` are the lines whose last message came here, in
    order, each with the number of deliveries before it. ``held_row`` are the rows to keep: they
    are rows 0, 1, … of the next step. ``expected``: the number of messages published here,
    and of their deliveries to subscribers, in this step and later ones of all shards.
    """

    outgoing: Mapping[int, Hops]
    delivered: Hops
    ended: Sequence[tuple[int, int]]
    held_row: Ints
    expected: tuple[int, int]


@dataclass(slots=True)
class GroupShard:
    """The arrays go with the tables: by line ``line_next`` (of the ingress) and ``ingress_open``,
    by atom ``atom_next``, by run ``run_open``; open means that the last message is still to come.
    ``placed``: rows and lines of what was published and ended since the last step, in order;
    ``expected``: the number of its messages and of their deliveries to subscribers.
    """

    place: ShardMap
    directory: Directory
    tables: Tables = field(init=False)
    line_next: Ints = field(init=False)
    ingress_open: NDArray[np.bool_] = field(init=False)
    atom_next: Ints = field(init=False)
    run_open: NDArray[np.bool_] = field(init=False)
    receivers: Receivers = field(init=False)
    placed: list[tuple[Ints, Ints]] = field(default_factory=list)
    expected: tuple[int, int] = (0, 0)
    stale: bool = False

    def __post_init__(self) -> None:
        self.tables = tables(self.directory, self.place.shard, self.place.home)
        self._fresh(self.tables)

    def change(
        self,
        op: str,
        group: str,
        members: Collection[str],
        now_ms: int,
        if_version: int | None = None,
    ) -> Change:
        """Change the groups, behind what was published before; see `Directory.change`."""
        change = self.directory.change(op, group, members, now_ms, if_version)
        if change.ended:
            lines = np.array(change.ended, dtype=np.int64)
            self.placed.append((np.full(len(lines), -1, np.int64), lines))
        self.stale = self.stale or bool(change.views or change.ended)
        return change

    def publish(
        self, groups: Sequence[str], group: Ints, first_row: int, now_ms: int
    ) -> dict[int, str]:
        """Take what is published at ingresses here, behind all before; why some is refused.

        ``group`` gives for each message the place of its group in ``groups``; their rows are
        ``first_row`` and so on. The reasons are by place among these messages.
        """
        lines = np.full(len(groups), -1, np.int64)
        reasons = {}
        for named, count in zip(*np.unique(group, return_counts=True), strict=True):
            name = groups[named]
            line = self.directory.line(name)
            if line is None:
                reasons[int(named)] = self._why(name, now_ms)
            else:
                lines[named] = line
                messages, deliveries = self.expected
                members = len(self.directory.groups[name])
                self.expected = messages + int(count), deliveries + int(count) * members
        of = lines[group]
        taken = np.flatnonzero(of >= 0)
        self.placed.append((taken + first_row, of[taken]))
        return {n: reasons[int(group[n])] for n in np.flatnonzero(of < 0).tolist()}

    def step(self, arrived: Hops) -> Stepped:
        """Take what arrived from other shards, then what was published and changed here.

        Lines that end before all that was published end first. Rows 0, 1, … are those held before.
        """
        is_changed = self.stale
        if is_changed:
            self._compile()
        deliver = arrived.position == DELIVER
        placed = self._numbered()
        published = np.flatnonzero(~placed.last)
        first = np.arange(len(placed)) < (published[0] if len(published) else len(placed))
        passing = self._pass(
            Hops.concat([placed.where(first), arrived.where(~deliver), placed.where(~first)])
        )
        outgoing, local = self._forward(passing)
        after = {number: view.after for number, view in self.directory.views.items()}
        got = Hops.concat([arrived.where(deliver), local])
        delivered = self.receivers.take(got, self.tables, after)
        last = delivered.last
        if is_changed or last.any() or passing.last.any():  # views may end without a message here
            self._retire()
        before = np.cumsum(~last)[last].tolist()
        ended = list(zip(before, delivered.line[last].tolist(), strict=True))
        expected, self.expected = self.expected, (0, 0)
        return Stepped(outgoing, delivered.where(~last), ended, self._keep(), expected)

    def ends(self, stepped: Stepped) -> Ints:
        """For each line's place the deliveries of the step that are before its end here.

        All of them where it goes on, none where it ended in an earlier step, or never was here.
        """
        ends = np.where(self.receivers.open, len(stepped.delivered), 0)
        lines = np.array([line for _, line in stepped.ended], np.int64)
        ends[self.tables.places(lines)] = [place for place, _ in stepped.ended]
        return ends

    def unended(self, lines: Collection[int]) -> set[int]:
        """Those of the lines whose last message has still to come to subscribers of this shard."""
        numbers = np.array(sorted(lines), dtype=np.int64)
        numbers = numbers[np.isin(numbers, self.tables.line)]  # others have ended long ago
        return set(numbers[self.receivers.open[self.tables.places(numbers)]].tolist())

    def reached(self) -> set[str]:
        """Return the subscribers of this shard that some line still leads to."""
        who = self.tables.members.take(np.flatnonzero(self.receivers.open)).values
        return {self.tables.subscribers[each] for each in np.unique(who).tolist()}

    def settle(self) -> None:
        """Take changes into account that wait for the next step; before the state is kept."""
        if self.stale:
            self._compile()

    def arrays(self) -> dict[str, Ints]:
        """The state besides the directory and what receivers hold, settled; booleans too."""
        columns = {name: getattr(self, name) for name in _ARRAYS}
        return columns | {f"receivers.{name}": getattr(self.receivers, name) for name in _RECEIVERS}

    def load(self, directory: str, arrays: Mapping[str, Ints], held: Hops) -> None:
        """Become what the directory's JSON, the arrays and what was held were taken from."""
        self.directory.load(directory)
        self.tables = tables(self.directory, self.place.shard, self.place.home)
        self._fresh(self.tables)
        for name, array in self.arrays().items():
            array[:] = arrays[name]
        self.receivers.held = held
        self.placed, self.expected, self.stale = [], (0, 0), False

    def _keep(self) -> Ints:
        """The rows of what is held; from now on they are rows 0, 1, …"""
        held = self.receivers.held
        row = np.where(held.last, -1, np.cumsum(~held.last) - 1)
        self.receivers.held = replace(held, row=row)
        return held.row[~held.last]

    def _numbered(self) -> Hops:
        """What was placed since the last step, with its numbers; last messages of lines from here.

        Only an ingress ends a line: other shards know of its end, and have no message for it.
        """
        none = np.empty(0, np.int64)
        row = np.concatenate([none, *(rows for rows, _ in self.placed)])
        line = np.concatenate([none, *(lines for _, lines in self.placed)])
        self.placed = []
        places = self.tables.places(line)
        ends = (row < 0) & self.ingress_open[places]
        self.ingress_open[places[ends]] = False
        kept = ends | (row >= 0)
        row, line, places = row[kept], line[kept], places[kept]
        rank, _, _ = ranks(places)
        numbers = self.line_next[places] + rank
        self.line_next += np.bincount(places, minlength=len(self.line_next))
        return Hops.fresh(row, line, numbers)

    def _why(self, group: str, now_ms: int) -> str:
        return REMOVED_GROUP if self.directory.was_removed(group, now_ms) else UNKNOWN_GROUP

    def _pass(self, hops: Hops) -> Hops:
        """Let messages pass the run that they are at, if it is here: its atoms number them."""
        tables = self.tables
        places = tables.places(hops.line)
        lengths = tables.runs(places)
        run = tables.first_run[places] + hops.position
        inside = hops.position < lengths
        here = np.zeros(len(hops), dtype=np.bool_)
        here[inside] = tables.run_shard[run[inside]] == self.place.shard
        counts = np.zeros(len(hops), dtype=np.int64)
        taken = tables.run_atoms.take(run[here])
        counts[here] = taken.lengths
        atoms = Ragged(np.concatenate(([0], np.cumsum(counts))).astype(np.int64), taken.values)
        rank, distinct, seen = ranks(taken.values)
        stamps = Ragged(atoms.bounds, self.atom_next[taken.values] + rank)
        self.atom_next[distinct] += seen
        self.run_open[run[here & hops.last]] = False
        position = hops.position + here
        position[position >= lengths] = DELIVER
        named = Ragged(atoms.bounds, tables.atom[taken.values])
        return Hops(
            hops.row,
            hops.line,
            hops.number,
            position,
            appended(hops.atom, named),
            appended(hops.stamp, stamps),
        )

    def _forward(self, hops: Hops) -> tuple[dict[int, Hops], Hops]:
        """Messages by the shard that is next; those for receivers go wherever there are any."""
        tables = self.tables
        places = tables.places(hops.line)
        leaving = hops.position == DELIVER
        out = tables.targets.take(places[leaving])
        inner = np.flatnonzero(~leaving)
        run = tables.first_run[places[inner]] + hops.position[inner]
        target = np.concatenate((tables.run_shard[run], out.values))
        which = np.concatenate((inner, np.flatnonzero(leaving)[out.owners()]))
        order = order_by(target, which)
        target, which = target[order], which[order]
        by_shard: dict[int, Hops] = {}
        local = Hops.empty()
        for shard in np.unique(target).tolist():
            part = hops.take(which[target == shard])
            if shard == self.place.shard:
                local = part
            else:
                by_shard[shard] = part
        return by_shard, local

    def _retire(self) -> None:
        """Forget the views that nothing of this shard is open in."""
        used = set(self.tables.view[self.ingress_open | self.receivers.open].tolist())
        owner = np.repeat(np.arange(len(self.tables.line)), np.diff(self.tables.first_run))
        used |= set(self.tables.view[owner[self.run_open]].tolist())
        before = len(self.directory.views)
        self.directory.forget([view for view in self.directory.views if view not in used])
        self.stale = self.stale or len(self.directory.views) < before

    def _compile(self) -> None:
        """Make the tables anew, and carry over what is known of lines, atoms and runs."""
        old, was = self.tables, self.arrays()
        held = self.receivers.held
        self.tables = tables(self.directory, self.place.shard, self.place.home)
        self._fresh(self.tables)
        line, was_line = _both(self.tables.line, old.line)
        atom, was_atom = _both(self.tables.atom, old.atom)
        run = _ranges(self.tables.first_run, line), _ranges(old.first_run, was_line)
        places = {"line": (line, was_line), "atom": (atom, was_atom), "run": run}
        for name, array in self.arrays().items():
            here, there = places[_BY[name]]
            array[here] = was[name][there]
        self.receivers.held = held
        self.stale = False

    def _fresh(self, tables: Tables) -> None:
        """Everything open, nothing numbered."""
        lines, atoms = len(tables.line), len(tables.atom)
        self.line_next = np.zeros(lines, np.int64)
        begins = (self.place.ingress(name) == self.place.shard for name in tables.group)
        self.ingress_open = np.fromiter(begins, dtype=np.bool_, count=lines)
        self.atom_next = np.zeros(atoms, np.int64)
        self.run_open = tables.run_shard == self.place.shard
        self.receivers = Receivers(
            np.zeros(lines, np.int64), np.zeros(atoms, np.int64), tables.members.lengths > 0
        )


_ARRAYS = ("line_next", "ingress_open", "atom_next", "run_open")
_RECEIVERS = ("line_next", "atom_next", "open")
_BY = {
    "line_next": "line",
    "ingress_open": "line",
    "atom_next": "atom",
    "run_open": "run",
    "receivers.line_next": "line",
    "receivers.atom_next": "atom",
    "receivers.open": "line",
}
"""What each array goes by."""


def _both(new: Ints, old: Ints) -> tuple[Ints, Ints]:
    """The places of the numbers that are in both, in each."""
    _, here, there = np.intersect1d(new, old, assume_unique=True, return_indices=True)
    return here.astype(np.int64), there.astype(np.int64)


def _ranges(bounds: Ints, which: Ints) -> Ints:
    """All places between the bounds of each of ``which``."""
    return Ragged(bounds, np.arange(bounds[-1])).take(which).values
