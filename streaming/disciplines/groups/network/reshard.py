"""The network laid over other shards: its views, numbers and versions stay.

Only at rest: what is on its way is for a shard by its number. Then every receiver has got all that
was numbered, so what ingresses and atoms come to next says what receivers wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sequencer.groups.network.hops import Hops
from sequencer.groups.network.routes import Directory, route
from sequencer.groups.network.tables import Tables, hosted, tables
from sequencer.ragged import Ints
from streaming.arrow.totals import Totals
from streaming.disciplines.exchange import is_deciding, with_new_links
from streaming.disciplines.groups.network.core import NetworkCore, NetworkOperator
from streaming.disciplines.groups.network.route import new_directory, shard_of, subscriber_shard
from streaming.disciplines.groups.plan import NetworkPlan
from streaming.disciplines.reshard import Resharded, ShardRow, counts_of, rekeyed, require_rest
from streaming.disciplines.state_keys import shard_keys
from streaming.disciplines.state_row import StateRow


def reshard(before: NetworkPlan, after: NetworkPlan, rows: Sequence[ShardRow]) -> Resharded:
    """Each subscriber to its shard by its hash, ingresses and nodes to theirs."""
    if before.shards == after.shards or not rows:
        return rekeyed(before, after, rows)
    operator = NetworkOperator(before)
    cores: list[Any] = [operator.restored(key, state) for key, state in rows]
    waiting = sum(len(core.records) + len(core.waiting) for core in cores)
    require_rest(rows, waiting + sum(is_deciding(state) for _, state in rows))
    numbers = _Numbers.of([core.net for core in cores])
    directory = _laid_over(cores[0].net.directory, after)
    known = {name: count for core in cores for name, count in core.known.items()}
    totals = counts_of(Totals.from_json(state.totals) for _, state in rows)
    totals.overlaps = []
    clock_ms = max(state.clock_ms for _, state in rows)
    found: list[ShardRow] = []
    for number, key in enumerate(shard_keys(after.shards, after.state_partitions)):
        core = NetworkCore(after, number)
        core.net.load(directory, _arrays(core, directory, numbers), Hops.empty())
        core.known = {
            name: count for name, count in known.items() if subscriber_shard(name, after) == number
        }
        own = replace(totals if number == 0 else Totals(), channels=len(core.known))
        own.overlaps = core.overlap_numbers()
        found.append((key, StateRow(clock_ms, own.to_json(), with_new_links(core.dump()))))
    return Resharded(found, {})


def _laid_over(directory: Directory, plan: NetworkPlan) -> str:
    """The directory as text, with the views of groups that are there over another plan's shards.

    At rest all others have ended, and shards forget them one by one.
    """
    there = new_directory(plan)
    there.load(directory.to_json())
    there.forget(list(there.views))
    for number, view in there.views.items():
        routed = route(
            view.groups, nodes=plan.nodes, shard_of=partial(shard_of, plan=plan), number=number
        )
        there.views[number] = replace(view, paths=routed.paths)
    return there.to_json()


@dataclass(frozen=True, slots=True)
class _Numbers:
    """What lines and atoms come to next, and which lines go on, by their numbers."""

    line_next: dict[int, int]
    is_open: dict[int, bool]
    atom_next: dict[int, int]

    @classmethod
    def of(cls, shards: Sequence[Any]) -> _Numbers:
        """Return those of all shards together; ValueError where a receiver is behind."""
        numbers = cls({}, {}, {})
        for net in shards:
            of, is_ingress = net.tables, _is_ingress(net.tables, net.place.ingress)
            for line, following, goes_on in zip(
                of.line[is_ingress].tolist(),
                net.line_next[is_ingress].tolist(),
                net.ingress_open[is_ingress].tolist(),
                strict=True,
            ):
                numbers.line_next[line], numbers.is_open[line] = following, goes_on
            at = hosted(of)
            numbers.atom_next.update(
                zip(of.atom[at].tolist(), net.atom_next[at].tolist(), strict=True)
            )
        for net in shards:
            got, of = _got(net.tables, numbers), net.tables
            lines = np.isin(of.view, [*net.directory.view_of.values()])
            atoms = lines[of.pair_lines[:, 0]]
            there = {"line_next": lines, "atom_next": atoms, "open": lines}
            if any((getattr(net.receivers, name) != got[name])[there[name]].any() for name in got):
                raise ValueError("its receivers have not got all that was sent")
        return numbers

    def within(self, of: Tables) -> tuple[Ints, NDArray[np.bool_], Ints]:
        """Return a shard's lines' next numbers, which of them go on, and its atoms' next stamps."""
        lines = of.line.tolist()
        following = np.array([self.line_next.get(line, 0) for line in lines], np.int64)
        goes_on = np.array([self.is_open.get(line, True) for line in lines], np.bool_)
        stamps = np.array([self.atom_next.get(atom, 0) for atom in of.atom.tolist()], np.int64)
        return following, goes_on, stamps


def _is_ingress(of: Tables, ingress: Callable[[str], int]) -> NDArray[np.bool_]:
    return np.array([ingress(group) == of.shard for group in of.group], np.bool_)


def _got(of: Tables, numbers: _Numbers) -> dict[str, Ints]:
    """The arrays of a shard's receivers that have got everything."""
    members = of.members.lengths > 0
    following, goes_on, stamps = numbers.within(of)
    return {
        "line_next": np.where(members, following, 0),
        "atom_next": np.where(of.here, stamps, 0),
        "open": members & goes_on,
    }


def _arrays(core: NetworkCore, directory: str, numbers: _Numbers) -> Mapping[str, Ints]:
    """The arrays of a new shard's `GroupShard`."""
    place = core.net.place
    there = new_directory(core.plan)
    there.load(directory)
    of = tables(there, place.shard, place.home)
    ingress, atoms = _is_ingress(of, place.ingress), np.zeros(len(of.atom), np.bool_)
    atoms[hosted(of)] = True
    following, goes_on, stamps = numbers.within(of)
    owner = np.repeat(np.arange(len(of.line)), np.diff(of.first_run))
    arrays: dict[str, Any] = {
        "line_next": np.where(ingress, following, 0),
        "ingress_open": ingress & goes_on,
        "atom_next": np.where(atoms, stamps, 0),
        "run_open": (of.run_shard == place.shard) & goes_on[owner],
    }
    return arrays | {f"receivers.{name}": array for name, array in _got(of, numbers).items()}
