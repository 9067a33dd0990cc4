"""Changes of groups while messages are under way, in a naive network with any delays."""

from __future__ import annotations

import pytest

from sequencer.change import ChangeError
from sequencer.groups.network.graph import build
from sequencer.groups.network.membership import (
    GroupIngress,
    RemovedGroupError,
    Subscriber,
    Views,
)
from sequencer.groups.network.ordering import DUPLICATE, HELD, GroupMessage, HeldLimitError
from tests.sequencer.groups.network.changing import Changing
from tests.sequencer.groups.network.memberships import zipf


def runs(seeds, **sizes):
    views = retired = spliced = 0
    for seed in seeds:
        world = Changing(seed).run(**sizes)
        assert world.anomaly() is None, f"seed {seed}: {world.anomaly()}"
        assert len(world.destinations) + len(world.refused) == world.number
        assert not any(subscriber.holding for subscriber in world.subscribers.values()), seed
        now = {world.views.starts[group][-1] for group in world.views.groups}
        assert {view for _, view in world.atoms} <= now, f"seed {seed}: an atom has not retired"
        assert not any(atom.early for atom in world.atoms.values()), seed
        views, retired = views + world.views.latest, retired + world.retired
        spliced += world.spliced
    assert views > len(seeds)
    assert retired > len(seeds) // 10
    assert spliced > len(seeds) // 10


def test_changes_keep_all_requirements():
    runs(range(200))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_changes_keep_all_requirements_in_many_runs():
    runs(range(10_000, 30_000), publishing=20, changes=8)


class Hasty(GroupIngress):
    def _joins(self, _sender, _views):
        return False


class Forgetful(Changing):
    """Without a safeguard: which one, `broken` says."""

    def __init__(self, seed, broken):
        super().__init__(seed)
        self.broken = broken
        if broken == "joining senders":
            self.ingress = {name: Hasty(name) for name in self.names}

    def move(self, kind, where):
        if kind == "bag" and self.broken == "ends of all groups":
            subscriber = self.subscribers[where]
            if any(m.view > subscriber.view for m in self.bags[where]):
                subscriber.unended.clear()
        super().move(kind, where)


@pytest.mark.parametrize("broken", ["joining senders", "ends of all groups"])
def test_each_safeguard_is_needed(broken):
    found = (Forgetful(seed, broken).run().anomaly() for seed in range(300))
    assert next(filter(None, found), None) is not None


def test_refused_changes_change_nothing():
    views = Views(views_max=2)
    views.add("G0", ["A", "B"])
    for change, reason in [
        (lambda: views.add("G0", ["A"]), "group-exists"),
        (lambda: views.add("G1", []), "no-members"),
        (lambda: views.set("G1", ["A"]), "unknown-group"),
        (lambda: views.remove("G1"), "unknown-group"),
    ]:
        with pytest.raises(ChangeError) as refused:
            change()
        assert refused.value.reason == reason
        assert (views.latest, dict(views.groups)) == (1, {"G0": frozenset("AB")})
    views.set("G0", ["A"])
    with pytest.raises(ChangeError, match="forget") as full:
        views.set("G0", ["B"])
    assert full.value.reason == "too-many-views"
    views.forget(2)
    assert views.set("G0", ["B"]).number == 3
    with pytest.raises(ValueError, match="nothing was forgotten"):
        views.forget(4)


def test_views_are_built_for_the_nodes_that_there_are():
    groups = zipf(10, 40, 1)
    views = Views(nodes_max=2)
    for name, members in groups.items():
        view = views.add(name, members)
    assert set(view.groups) == set(groups)
    assert view.graph == build(groups, nodes_max=2)
    assert view.graph != build(groups)


def test_a_group_that_shares_nobody_is_left_alone():
    views = Views()
    views.add("G0", "AB")
    views.add("G9", "YZ")
    view = views.add("G1", "AB")
    assert set(view.groups) == {"G0", "G1"}
    assert views.starts == {"G0": [1, 3], "G9": [2], "G1": [3]}


def test_the_switch_is_a_message_at_one_place_for_all():
    views = Views()
    views.add("G0", "AB")
    ingress = GroupIngress("G0")
    (before,) = ingress.publish(GroupMessage("G0", "A", "x"), views)
    views.set("G0", "BC")
    last, after = ingress.publish(GroupMessage("G0", "C", "y"), views)
    assert [(m.view, m.number, m.last) for m in (before, last, after)] == [
        (1, 0, False),
        (1, 1, True),
        (2, 0, False),
    ]
    both = Subscriber("B")
    assert both.take(after, views) == (HELD, ())
    assert both.take(after, views) == (DUPLICATE, ())
    assert both.take(last, views) == (HELD, ())
    assert both.take(before, views)[1] == (before, last, after)
    assert both.take(last, views) == (DUPLICATE, ())
    assert Subscriber("C").take(after, views)[1] == (after,)


def test_a_removed_group_takes_nothing_until_it_is_added_again():
    views = Views()
    ingress = GroupIngress("G0")
    with pytest.raises(RemovedGroupError):
        ingress.publish(GroupMessage("G0", "A", "x"), views)
    views.add("G0", "AB")
    assert ingress.publish(GroupMessage("G0", "A", "x"), views)[0].number == 0
    views.remove("G0")
    (fin,) = ingress.switch(views)
    assert fin.last
    with pytest.raises(RemovedGroupError, match="was not taken"):
        ingress.publish(GroupMessage("G0", "A", "y"), views)
    views.add("G0", "AB")
    (again,) = ingress.publish(GroupMessage("G0", "A", "y"), views)
    assert (again.view, again.number) == (2, 0)


def test_the_limit_of_held_messages_counts_views_to_come():
    views = Views()
    views.add("G0", "A")
    views.set("G0", "AB")
    subscriber = Subscriber("A", held_max=1)
    assert subscriber.take(GroupMessage("G0", "A", 0, 0, view=2), views)[0] == HELD
    assert subscriber.take(GroupMessage("G0", "A", 0, 0, view=2), views) == (DUPLICATE, ())
    with pytest.raises(HeldLimitError, match="view 1"):
        subscriber.take(GroupMessage("G0", "A", 1, 1, view=1), views)
    with pytest.raises(HeldLimitError, match="view 2"):
        subscriber.take(GroupMessage("G0", "A", 1, 1, view=2), views)
    out = subscriber.take(GroupMessage("G0", "A", 0, 0, view=1, last=True), views)[1]
    assert [m.view for m in out] == [1, 2]


def test_a_duplicate_is_no_reason_to_refuse_at_the_limit():
    views = Views()
    views.add("G0", "A")
    subscriber = Subscriber("A", held_max=1)
    early = GroupMessage("G0", "A", 1, 1, view=1)
    assert subscriber.take(early, views)[0] == HELD
    assert subscriber.take(early, views) == (DUPLICATE, ())
    assert len(subscriber.take(GroupMessage("G0", "A", 0, 0, view=1), views)[1]) == 2
    assert subscriber.holding == 0
