"""Shards that exchange batches: any rounds, any splits, changes of groups in between."""

from __future__ import annotations

import random

import pytest

from sequencer.groups.network.routes import Directory
from sequencer.groups.network.tables import tables
from tests.seeds import seeds
from tests.sequencer.groups.network.shards import OPS, Shards


def some_groups(rng, count, people, biggest):
    return {f"G{n}": rng.sample(people, rng.randint(1, biggest)) for n in range(count)}


def run(
    seed, *, shards=3, nodes=4, groups=5, people="ABCDEFGH", rounds=30, changes=0.3, placed=0.0
):
    """``placed``: how often a change stands among what is published in a round."""
    rng = random.Random(seed)
    people = list(people)
    network = Shards(some_groups(rng, groups, people, 5), shards=shards, nodes=nodes, seed=seed)
    for _ in range(rounds):
        if rng.random() < changes:
            group = f"G{rng.randrange(groups + 2)}"
            op = rng.choice(["add", "set", "set", "remove"])
            refused = network.change(op, group, rng.sample(people, rng.randint(1, 4)))
            assert refused in (None, "group-exists", "unknown-group")
        for _ in range(rng.randrange(6)):
            if rng.random() < placed:
                op = rng.choice(["add", "set", "remove", "join", "leave"])
                some = rng.sample(people, 1 if op in ("join", "leave") else rng.randint(1, 4))
                network.place(op, f"G{rng.randrange(groups + 2)}", some)
            if network.groups:
                group = rng.choice(sorted(network.groups))
                network.publish(group, rng.choice(sorted(network.groups[group])))
        network.round()
    network.settle()
    network.judge()
    return network


@pytest.mark.parametrize("seed", seeds(25, 60))
def test_random_networks_with_changes(seed):
    run(seed, shards=1 + seed % 4, nodes=1 + seed % 5)


@pytest.mark.parametrize("seed", seeds(16, 40))
def test_random_networks_with_changes_among_messages(seed):
    network = run(seed, shards=1 + seed % 4, nodes=1 + seed % 5, changes=0, placed=0.3)
    assert set(network.members) == set(network.expected) | {body for body, _ in network.refused}


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_many_random_networks_with_changes(block):
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        run(seed, shards=1 + seed % 4, nodes=1 + seed % 5, groups=3 + seed % 5)
        run(seed, shards=1 + seed % 4, nodes=1 + seed % 5, changes=0, placed=0.3)


def test_views_and_lines_are_forgotten():
    network = run(3, rounds=60, changes=0.6)
    for shard in network.shards:
        assert len(shard.directory.views) <= len(network.groups) + 2


def test_views_are_forgotten_also_where_nothing_of_them_ever_comes():
    network = Shards({"G0": ["A", "B"]}, shards=6, nodes=4)
    for turn in range(20):
        network.change(("join", "leave")[turn % 2], "G0", ["C"])
        network.publish("G0", "A")
        network.settle()
    assert [len(shard.directory.views) for shard in network.shards] == [1] * 6
    network.judge()


def test_numbers_rise_by_one_for_every_subscriber():
    network = run(5, changes=0)
    for taken in network.stamps.values():
        following = {}
        for line, number, _ in taken:
            assert number == following.get(line, 0)
            following[line] = number + 1


def test_messages_to_no_group_are_refused_with_the_reason():
    network = Shards({"G0": ["A"], "G1": ["A"]}, shards=2, nodes=2)
    network.round()
    assert network.change("remove", "G1") is None
    for group in ("G0", "G1", "G2"):
        network.waiting.append((group, "A", f"to {group}"))
    network.groups["G1"] = network.groups["G2"] = set()
    network.round()
    assert sorted(network.refused) == [("to G1", "removed-group"), ("to G2", "unknown-group")]
    network.now_ms += 200
    network.waiting.append(("G1", "A", "later"))
    network.round()
    assert network.refused[-1] == ("later", "unknown-group"), "forgotten after a while"


def test_the_last_group_can_go_and_come_back():
    network = Shards({"G0": ["A"]}, shards=2, nodes=2)
    network.publish("G0", "A")
    network.round()
    assert network.change("remove", "G0") is None
    network.settle()
    network.round()
    assert network.change("add", "G0", ["A", "B"]) is None
    network.publish("G0", "A")
    network.settle()
    network.judge()


def test_refused_changes_change_nothing():
    network = Shards({"G0": ["A", "B"]}, shards=2, nodes=2)
    before = [shard.directory.to_json() for shard in network.shards]
    assert network.change("add", "G0", ["C"]) == "group-exists"
    assert network.change("set", "G9", ["C"]) == "unknown-group"
    assert network.change("remove", "G9") == "unknown-group"
    assert network.change("set", "G0", []) == "no-members"
    assert [shard.directory.to_json() for shard in network.shards] == before


def test_a_directory_that_was_stored_goes_on_with_the_same_text():
    """Also with more than ten views, whose numbers do not sort as texts do."""
    directory = Directory(2, lambda node: node, remember_ms=100)
    directory.begin({"G0": ["A", "B"]})
    for n in range(30):
        stored = Directory(2, lambda node: node, remember_ms=100)
        stored.load(directory.to_json())
        for each in (directory, stored):
            each.change("set", "G0", ["A", f"B{n}"], n)
        assert stored.to_json() == directory.to_json()


def test_separate_groups_do_not_all_meet_on_the_first_node():
    directory = Directory(4, lambda node: node, remember_ms=0)
    directory.begin({f"G{n}": [f"a{n // 2}", f"b{n // 2}"] for n in range(40)})
    used = [run.shard for view in directory.views.values() for run in view.paths[min(view.paths)]]
    assert [used.count(node) for node in range(4)] == [5, 5, 5, 5]


@pytest.mark.parametrize("seed", range(6))
def test_a_change_moves_its_own_connected_component_only(seed):
    """Groups that have no subscriber in common with the changed one keep view, path and numbers."""
    rng = random.Random(seed)
    groups = {
        f"{part}.{n}": {f"{part}.{who}" for who in rng.sample("abcdef", rng.randint(1, 4))}
        for part in range(8)
        for n in range(rng.randint(1, 5))
    }
    network = Shards(groups, shards=3, nodes=4, seed=seed)
    for _ in range(40):
        group = rng.choice([*groups, "new"])
        op = rng.choice(OPS)
        part = group.partition(".")[0]
        members = rng.sample([f"{part}.{who}" for who in "abcdef"], rng.randint(1, 3))
        directory = network.shards[0].directory
        before, views = connected(network.groups), dict(directory.views)
        was = {name: views[number] for name, number in directory.view_of.items()}
        network.change(op, group, members[:1] if op in ("join", "leave") else members)
        now = connected(network.groups)
        touched = before.get(group, {group}) | now.get(group, {group})
        for shard in network.shards:
            view_of, views = shard.directory.view_of, shard.directory.views
            for name in network.groups:
                if name not in touched:
                    assert views[view_of[name]] == was[name]
                    assert view_of[name] == was[name].number


def connected(groups):
    """For each group those that it hangs together with, by subscribers in common."""
    found = {}
    for name in groups:
        if name in found:
            continue
        part, waiting = {name}, [name]
        while waiting:
            members = groups[waiting.pop()]
            more = {other for other, some in groups.items() if some & members} - part
            part |= more
            waiting += more
        found |= dict.fromkeys(part, part)
    return found


@pytest.mark.parametrize(
    ("op", "members", "is_over"),
    [
        ("set", ["D", "F"], True),  # another part of the graph: G0 stays in the view
        ("set", ["B", "C", "D"], False),  # both have gone on: what is left was sent before
        ("set", ["A", "B", "D"], False),  # they still overlap
        ("remove", [], True),
    ],
)
def test_an_overlap_is_over_while_one_of_its_lines_goes_on(op, members, is_over):
    directory = Directory(4, lambda node: node, remember_ms=0)
    directory.begin({"G0": ["A", "B"], "G1": ["A", "B"], "G2": ["B", "C"]})
    (view,) = directory.views.values()
    directory.change(op, "G1", members, now_ms=0)
    known = tables(directory, 0, lambda _: 0)
    atom = view.first_atom + view.pairs.index(("G0", "G1"))
    assert known.over[known.atom.tolist().index(atom)] == is_over
