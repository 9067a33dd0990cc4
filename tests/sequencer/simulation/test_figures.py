"""The figures in a short form: what the paper says of them holds, and they are exact where easy."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np
import pytest

from sequencer.groups.network.graph import Graph, build, check
from sequencer.groups.network.lines import Line
from sequencer.groups.network.overlaps import ordered_overlaps
from sequencer.groups.network.placement import loads, node_path, place
from sequencer.simulation import changes, counts, growth, hosts, latency, load, stamps, trees
from sequencer.simulation.annealing import Tree, annealed, graph_of
from sequencer.simulation.figure1 import B as FOUR
from sequencer.simulation.plan import assign, network, plan
from sequencer.simulation.topology import SMALL, Shape, transit_stub
from sequencer.simulation.workload import names, nearest_groups, rates, zipf_groups

MIDDLE = Shape(domains=4, transits=4, stubs=2, stub_routers=10)


def plain(jobs):
    return jobs


def laid_out(seed=1, subscribers=24, groups=8):
    topology = transit_stub(np.random.default_rng([seed, 1]), MIDDLE)
    rng = np.random.default_rng([seed, 2])
    where = latency.settled(topology, rng, subscribers)
    return plan(zipf_groups(rng, list(where.hosts), groups), where), where, rng


@pytest.mark.parametrize("seed", range(5))
def test_a_message_alone_takes_the_sum_of_its_ways(seed):
    """The network that runs, and the sum along the path, agree to the microsecond's rounding."""
    laid, where, rng = laid_out(seed)
    spread_out = latency.measure(laid, where, rng, span_ms=1e7)
    summed = load.stretches(laid.groups, laid.paths, where, laid.site)
    assert np.allclose(spread_out.delivered, summed, rtol=1e-3)
    assert np.allclose(spread_out.delivered, spread_out.arrived)


def test_messages_that_meet_wait_for_each_other_and_all_come():
    laid, where, rng = laid_out(2, 40, 16)
    crowded = latency.measure(laid, where, rng, span_ms=20)
    assert (crowded.delivered >= crowded.arrived - 1e-9).all()
    assert crowded.delivered.mean() > crowded.arrived.mean()
    assert crowded.messages == sum(map(len, laid.groups.values()))


def test_a_run_in_which_something_does_not_come_is_no_measure(monkeypatch):
    laid, where, rng = laid_out()
    monkeypatch.setattr(latency, "network", lambda *args: deaf(network(*args)))
    with pytest.raises(RuntimeError, match="deliveries took place"):
        latency.measure(laid, where, rng)


def deaf(net):
    net.machine("H00").up = False
    return net


def test_every_node_stands_alone_and_all_groups_have_one():
    laid, where, _ = laid_out(3, 40, 30)
    assert len(set(laid.site.values())) == len(laid.site)
    assert set(laid.paths) == set(laid.groups)
    assert all(laid.paths.values())
    assert max(laid.site.values()) < len(where.sites)


def test_both_readings_of_stretch_as_counted_one_by_one():
    laid, where, rng = laid_out(1, 16, 4)
    found = latency.measure(laid, where, rng, span_ms=1e7)
    place = {name: at for at, name in enumerate(where.hosts)}
    averages, ratios, far = [], [], []
    for receiver in where.hosts:
        ways, direct = [], []
        for group, members in sorted(laid.groups.items()):
            steps = [laid.site[node] for node in laid.paths[group]]
            between = sum(where.apart[one, two] for one, two in pairwise(steps))
            for sender in members - {receiver} if receiver in members else ():
                ends = where.away[sender][steps[0]] + where.away[receiver][steps[-1]]
                ways.append(ends + between)
                direct.append(where.direct[receiver][place[sender]])
        both = [(way, least) for way, least in zip(ways, direct, strict=True) if least > 0]
        averages.append(sum(ways) / sum(direct))
        ratios.append(np.mean([way / least for way, least in both]))
        far.append(np.mean([way / least for way, least in both if least >= latency.CLUSTER_MS]))
    assert np.allclose(found.delivered, averages, rtol=1e-3)
    assert np.allclose(found.ratios, ratios, rtol=1e-2)
    assert np.allclose(found.far, far, rtol=1e-2)


def test_the_ratio_of_averages_stays_below_the_papers_maximum():
    """Section 4.2: at most 2.5 with 8 groups and 5 with 64."""
    low, high = latency.figure(plain, 1, runs=1, subscribers=64, counts=(8, 64), shape=MIDDLE)
    assert 1 <= low.values.min() < low.mean < low.most < 2.5
    assert 1 <= high.values.min() < high.mean < high.most < 5
    assert len(high.values) == 64
    for each in (low, high):
        # Neighbours make an average of ratios large.
        assert each.mean < each.ratios_mean
        assert each.far_mean < each.apart_mean <= each.ratios_mean


def test_nodes_grow_more_gradually_after_twenty_groups():
    """Section 4.3."""
    first, middle, last = counts.by_groups(plain, 1, runs=6, counts=(1, 20, 64))
    assert first.nodes.mean == 0
    early = (middle.nodes.mean - first.nodes.mean) / 19
    late = (last.nodes.mean - middle.nodes.mean) / 44
    assert 0 < late < 0.75 * early
    assert last.nodes.p10 <= last.nodes.mean <= last.nodes.p90
    assert middle.overlaps.mean < middle.atoms.mean


def test_nodes_have_a_peak_and_come_down_to_one():
    """Section 4.4: a peak at 0.15 (for the paper's atoms), one node above 0.9."""
    told = counts.by_occupancy(plain, 1, runs=4, occupancies=(0, 0.05, 0.15, 0.3, 0.6, 0.95, 1))
    nodes = [each.paper_nodes.mean for each in told]
    assert nodes[0] == 0
    assert max(nodes) == nodes[2]
    assert nodes[2:] == sorted(nodes[2:], reverse=True)
    assert nodes[-2:] == [1, 1]
    assert told[-1].overlaps.mean == 32 * 31 / 2


def test_stamps_are_counted_as_messages_collect_them():
    """Against the network that runs, and a count over all deliveries one by one."""
    laid, where, rng = laid_out(1, 20, 8)
    collected, needed, most = stamps.count(laid.graph, laid.groups)
    net = network(laid, where, rng)
    one_by_one = []
    for group, members in laid.groups.items():
        for member in sorted(members):
            net.publish(member, group, f"{group}/{member}")
        for receiver in members:
            pairs = [pair for pair, some in laid.graph.atoms.items() if group in pair]
            shared = sum(receiver in laid.graph.atoms[pair] for pair in pairs)
            one_by_one += [shared] * len(members)
    net.events.run()
    assert collected == pytest.approx(np.mean(list(net.record.stamps.values())))
    assert most == max(net.record.stamps.values())
    assert needed == pytest.approx(np.mean(one_by_one))


def test_stamps_are_fewer_than_the_entries_of_a_vector():
    told = stamps.figure(plain, 1, runs=1, counts=(8, 64), occupancies=(0.1, 1))
    assert [(each.by, each.at) for each in told] == [
        ("groups", 8),
        ("groups", 64),
        ("occupancy", 0.1),
        ("occupancy", 1),
    ]
    assert all(each.needed <= each.collected <= each.most < each.vector == 128 for each in told)
    assert told[-1].most == 31


def test_no_node_orders_more_than_the_busiest_receiver_gets():
    low, high = load.figure(plain, 1, runs=2, subscribers=64, counts=(8, 32), shape=MIDDLE)
    for each in (low, high):
        assert each.ordering <= each.receiver < each.total
        assert each.limit_kept == 1
        assert each.ordering <= each.passing <= each.total
        assert each.receiver < each.unavoidable <= each.passing
        assert each.ordering <= each.dealt_ordering <= each.total
        assert 1 <= each.central <= each.near * 1.05
        assert each.near < each.far < each.alone
        assert each.near <= each.near_most


def test_the_busiest_as_counted_by_hand():
    groups = {name: frozenset(some) for name, some in {"G0": "ABC", "G1": "BC"}.items()}
    graph, nodes, paths = assign(groups)
    assert rates(groups) == {"G0": 3, "G1": 2}
    assert len(paths["G0"]) == 1
    most = load.busiest(groups, graph, nodes)
    assert (most.receiver, most.ordering, most.passing, most.total) == (5, 5, 5, 5)


def test_groups_that_overlap_in_pairs_pass_one_atom_of_any_graph_without_loops():
    """Figure 1 (b), with its atoms in every order on a line."""
    groups = {name: frozenset(some) for name, some in FOUR.items()}
    for order in permutations(build(groups).atoms):
        line = Line(order)
        graph = replace(build(groups), paths={**dict.fromkeys(groups, ()), **dict(line.runs())})
        assert {each.criterion for each in check(graph, groups)} <= {"C1"}
        nodes = {pair: at for at, pair in enumerate(order)}
        most = max(each.passing for each in loads(graph, groups, nodes, rates(groups)))
        assert most >= load.unavoidable(groups, graph) == 9
    chain = {"G0": frozenset("AB"), "G1": frozenset("BC"), "G2": frozenset("CD")}
    assert load.unavoidable(chain, Graph({}, dict.fromkeys(chain, ()))) == 2
    assert load.unavoidable({}, Graph({}, {})) == 0


def three_arms():
    """Three groups meet in the middle; each meets three groups of its own outside."""
    groups = {}
    for arm in "abc":
        groups[f"{arm}0"] = frozenset({"h1", "h2", *(f"{arm}{n}" for n in range(12))})
        for n in range(3):
            groups[f"{arm}{n + 1}"] = frozenset(f"{arm}{at}" for at in range(3 * n, 3 * n + 6))
    return groups


def test_a_tree_with_fewer_hops_than_a_line_is_found_where_there_is_one():
    """On a line one of the three arms is passed by the group of another."""
    groups = three_arms()
    graph, nodes, paths = assign(groups)
    assert sum(map(len, paths.values())) == len(groups) + 4
    bags = [set() for _ in set(nodes.values())]
    for pair, node in nodes.items():
        bags[node].update(pair)
    limit = load.busiest(groups, graph, nodes).receiver
    rng = np.random.default_rng(1)
    tree, bags = annealed(tuple(graph.atoms), rates(groups), bags, limit, rng, 6000)
    grown, hosts_of = graph_of(graph.atoms, groups, tree, bags)
    assert check(grown, groups) == ()
    found = [node_path(grown, hosts_of, group) for group in groups]
    assert sum(map(len, found)) == len(groups) + 3
    assert (
        load.busiest(groups, grown, hosts_of).passing < load.busiest(groups, graph, nodes).passing
    )
    assert load.busiest(groups, grown, hosts_of).ordering <= limit


def test_spans_of_a_tree_are_directed_paths():
    tree = Tree(5, ((0, 1), (1, 2), (3, 1), (2, 4)))
    assert tree.path(0b10001) == [0, 1, 2, 4]
    assert tree.path(0b11000) == [3, 1, 2, 4]
    assert tree.span(0b01001) is None
    with pytest.raises(ValueError, match="no directed path"):
        tree.path(0b01001)


def test_other_lines_and_trees_keep_the_criteria_and_lie_between_the_bounds():
    (found,) = trees.figure(plain, 1, runs=2, subscribers=40, counts=(16,), steps=1500)
    for seen in (found.built_seen, found.least_seen, found.tree_seen):
        assert found.unavoidable <= seen <= found.total
    assert found.least_seen < found.built_seen
    assert found.built_hops < found.least_hops
    assert found.tree_hops <= found.built_hops


def test_groups_of_the_nearest_hosts():
    _, where, rng = laid_out(1, 24)
    groups = nearest_groups(rng, where.direct, 6)
    assert [len(some) for some in groups.values()] == [24, 12, 8, 6, 5, 4]
    for members in groups.values():
        inside = [where.hosts.index(name) for name in sorted(members)]
        outside = [at for at in range(24) if at not in inside]
        reach = [(where.direct[name][inside].max(), name) for name in sorted(members)]
        assert any(not outside or most <= where.direct[name][outside].min() for most, name in reach)


def test_fewer_hosts_and_neighbours():
    few, near, many, near_many = hosts.figure(
        plain, 1, runs=2, hosts=(16, 64), counts=(16,), shape=MIDDLE
    )
    assert (few.members, near.members) == (hosts.ANYWHERE, hosts.NEAREST)
    assert few.atoms < many.atoms
    for anywhere, nearest in ((few, near), (many, near_many)):
        assert anywhere.total == nearest.total
        assert nearest.atoms < anywhere.atoms
        assert nearest.direct_ms < anywhere.direct_ms
    assert near_many.passing < many.passing


def test_growth_short():
    small, large = growth.figure(plain, 1, sizes=((8, 40), (40, 200)), shape=MIDDLE)
    assert small.atoms < large.atoms == len(build_again(40, 200).atoms)
    assert large.ordering <= large.receiver < large.total
    assert 1 <= large.stretch <= large.stretch_most


def build_again(groups, subscribers):
    rng = np.random.default_rng([1, 6, groups, subscribers])
    members = names("H", subscribers)
    topology = transit_stub(np.random.default_rng([1, 1]), MIDDLE)
    hosts = growth.clustered_hosts(topology, rng, subscribers)
    assert len(hosts) == subscribers
    rng.choice(members, min(growth.RECEIVERS_MEASURED, subscribers), replace=False)
    return build(zipf_groups(rng, members, groups))


@pytest.mark.slow
def test_growth_to_a_thousand_groups():
    (grown,) = growth.figure(plain, 1, sizes=((1000, 10_000),))
    assert grown.ordering <= grown.receiver
    assert grown.nodes < 1000
    assert grown.needed < 50


def test_small_shapes_work_too():
    (only,) = latency.figure(plain, 3, runs=1, subscribers=8, counts=(2,), shape=SMALL)
    assert only.groups == 2


def test_changes_short():
    found = changes.figure(
        plain, 2, runs=2, subscribers=24, counts=(6,), steps=(0, 4, 40), shape=SMALL
    )
    assert [(each.groups, each.changes, each.runs) for each in found] == [
        (6, 0, 2),
        (6, 4, 2),
        (6, 40, 2),
    ]
    assert found[0].kept == found[0].anew
    assert found[0].moved == 0
    assert all(each.anew.ordering <= 1 + 1e-9 for each in found)
    assert found == changes.figure(
        plain, 2, runs=2, subscribers=24, counts=(6,), steps=(0, 4, 40), shape=SMALL
    )


@pytest.mark.parametrize("seed", range(4))
def test_a_graph_changed_atom_by_atom_keeps_the_criteria(seed):
    rng = np.random.default_rng(seed)
    members = names("H", 12)
    groups = zipf_groups(rng, members, 5)
    graph = build(groups)
    kept = changes.KeptLine(graph, place(graph, groups))
    atoms = set(graph.atoms)
    for step in range(40):
        groups = changes.changed(groups, members, rng, join=step % 2 == 0)
        overlaps = ordered_overlaps(groups)
        begun, ended = kept.change(groups, overlaps)
        assert len(atoms) + begun - ended == len(overlaps)
        graph, nodes = kept.graph(groups, overlaps)
        atoms = set(graph.atoms)
        assert atoms == {overlap.pair for overlap in overlaps} == set(nodes)
        assert check(graph, groups) == ()
