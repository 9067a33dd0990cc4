"""Views laid over shards: as their definition has it, in time of what they are made of."""

from __future__ import annotations

import random
import sys
from contextlib import suppress
from itertools import groupby

import pytest

from sequencer.change import ChangeError
from sequencer.groups.network.overlaps import components
from sequencer.groups.network.routes import Directory, Stretch, arranged, route
from sequencer.groups.network.tables import tables
from tests.seeds import seeds


def shard_of(node):
    return node % 3


def some_groups(rng, count):
    return {f"G{n}": sorted(rng.sample("abcdefghijkl", rng.randint(1, 6))) for n in range(count)}


def connected(groups):
    return [{name: groups[name] for name in part} for part in components(groups)]


@pytest.mark.parametrize("seed", seeds(20, 400))
def test_a_path_is_in_each_shard_as_long_as_its_atoms_are(seed):
    """Also on atoms of others, which it passes."""
    rng = random.Random(seed)
    nodes = rng.randint(1, 6)
    for turn, groups in enumerate(connected(some_groups(rng, 10))):
        view = route(groups, nodes=nodes, shard_of=shard_of, number=turn)
        graph, placed = arranged(groups, nodes, turn)
        place_of = {pair: at for at, pair in enumerate(view.pairs)}
        hosts = {pair: shard_of(node) for pair, node in placed.items()}
        for name, path in graph.paths.items():
            assert view.paths[name] == tuple(
                Stretch(shard, tuple(place_of[pair] for pair in passed if name in pair))
                for shard, passed in groupby(path, hosts.__getitem__)
            )


@pytest.mark.parametrize("seed", seeds(10, 100))
def test_a_shard_knows_which_overlaps_are_its_own_and_which_are_double(seed):
    rng = random.Random(seed)
    directory = Directory(4, shard_of, remember_ms=0)
    directory.begin(some_groups(rng, 6))
    for op in ("set", "join", "leave", "add", "remove"):
        known = directory.groups.keys() if op != "add" else {"new"}
        with suppress(ChangeError):  # a group's last member does not leave
            directory.change(op, rng.choice(sorted(known)), rng.choice("abcdef"), now_ms=0)
    of = tables(directory, 1, lambda name: ord(name) % 3)
    pairs = [(view, pair) for view in directory.views.values() for pair in view.pairs]
    common = [set(view.groups[one]) & set(view.groups[other]) for view, (one, other) in pairs]
    assert of.double.tolist() == [len(some) > 1 for some in common]
    assert of.here.tolist() == [any(ord(name) % 3 == 1 for name in some) for some in common]


def calls(work):
    """How many functions a piece of work calls, those written in C included."""
    count = 0

    def note(_frame, event, _):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def separate(count):
    """Begin with so many groups that share no subscriber."""
    Directory(4, shard_of, remember_ms=0).begin({f"G{n}": [f"a{n}"] for n in range(count)})


def together(count):
    """Lay out so many groups that all share two; their paths pass most atoms of all others."""
    groups = {f"G{n:03}": ["a", "b"] for n in range(count)}
    route(groups, nodes=2, shard_of=shard_of)


def with_one_in_all(count):
    """Begin with so many groups that share one subscriber, so each two of them overlap."""
    groups = {f"G{n}": ["all", f"a{n}"] for n in range(count)}
    Directory(4, shard_of, remember_ms=0).begin(groups)


@pytest.mark.parametrize(("work", "times"), [(separate, 4), (with_one_in_all, 4), (together, 4**2)])
def test_the_work_grows_with_groups_and_atoms_and_not_with_what_paths_pass(work, times):
    """Four times the groups: of those that need no atom, and with sixteen times the atoms."""
    work(10)
    size = 400 // times
    few, many = (calls(lambda count=count: work(count)) for count in (size, 4 * size))
    assert many < 1.2 * times * few


@pytest.mark.parametrize("seed", seeds(10, 100))
def test_a_view_begins_after_the_latest_lines_of_its_subscribers(seed):
    """Those of a subscriber in earlier views end before these, as its latest view waits for them."""
    rng = random.Random(seed)
    directory = Directory(4, shard_of, remember_ms=0)
    directory.begin(some_groups(rng, 5))
    for turn in range(40):
        before, known = dict(directory.views), bool(directory.groups) and rng.random() < 0.8
        name = rng.choice(sorted(directory.groups)) if known else f"new{turn}"
        op = rng.choice(["set", "set", "remove"]) if known else "add"
        for view in directory.change(op, name, rng.sample("abcdefghijkl", 3), turn).views:
            wanted = set()
            for member in set().union(*view.groups.values()):
                latest = [one for one in before.values() if lines_of(one, member)][-1:]
                wanted |= {line for one in latest for line in lines_of(one, member)}
            assert view.after == tuple(sorted(wanted))
        directory.forget(rng.sample(sorted(directory.views), rng.randrange(2)))
        again = Directory(4, shard_of, remember_ms=0)
        again.load(directory.to_json())
        assert again.entered == directory.entered


def lines_of(view, member):
    groups = enumerate(view.groups.values(), view.first_line)
    return [line for line, members in groups if member in members]


def test_many_changes_in_a_row_do_not_wait_for_all_before_them():
    directory = Directory(4, shard_of, remember_ms=0)
    views = [
        view
        for n in range(40)
        for view in directory.change("add", f"G{n}", ["all", f"a{n}"], 0).views
    ]
    assert sum(len(view.after) for view in views) < 40**2, "with all of them it is a sixth of 40**3"
