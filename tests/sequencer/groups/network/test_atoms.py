"""Tables of atoms, and how an atom whose overlap is gone leaves the paths of others."""

from __future__ import annotations

import pytest

from sequencer.groups.network.atoms import (
    Onward,
    Reroute,
    Rerouted,
    Retirements,
    ViewAtom,
    reroute_ingress,
)
from sequencer.groups.network.membership import GroupIngress, Views
from sequencer.groups.network.ordering import Atom, GroupMessage, Receiver
from sequencer.simulation.figure1 import C
from tests.sequencer.groups.network.changing import Changing

Q0, Q1, Q2 = ("G1", "G3"), ("G0", "G2"), ("G2", "G3")


def views_of(groups):
    views = Views()
    for group, members in groups.items():
        views.add(group, members)
    return views


def numbered(group, number=0, *, view=5, last=False):
    return GroupMessage(group, "B", f"{group}/{number}", number, view=view, last=last)


def test_the_tables_lead_along_the_paths_and_back():
    view = views_of(C).views[5]
    for group, path in view.graph.paths.items():
        way, before = path[0], None
        passed = []
        while way is not None:
            atom = ViewAtom.of(view, way)
            assert atom.previous[group] == before
            passed.append(way)
            before, way = way, atom.following[group]
        assert passed == list(path)
    transit = ViewAtom.of(view, Q1)
    assert set(transit.following) == {"G0", "G2", "G3"}
    assert (transit.previous["G3"], transit.following["G3"]) == (Q0, Q2)


def test_q1_of_figure_1_retires_when_g0_has_ended():
    """Messages of G3 go past it, from Q0 straight to Q2; what took the long way comes first."""
    view = views_of(C).views[5]
    before, retiring, after = (ViewAtom.of(view, pair) for pair in (Q0, Q1, Q2))
    ((slow, to),) = before.take(numbered("G3"), ("G0", "G3")).messages
    assert to == Q1
    ended = retiring.take(numbered("G0", last=True), Q0)
    assert ended.messages[0][0].stamps == ((Q1, 0),)
    assert retiring.gone
    requests = retiring.retire()
    assert requests == (
        Reroute(5, Q1, None, (("G2", Q2),)),
        Reroute(5, Q1, Q0, (("G3", Q2),)),
    )
    notice = before.reroute(requests[1])
    assert notice == Rerouted(5, Q1, Q0, ("G3",))
    assert before.reroute(requests[1]) is None
    ((fast, to),) = before.take(numbered("G3", 1), ("G0", "G3")).messages
    assert to == Q2
    # The new way is the faster one.
    assert after.take(fast, Q0) == Onward()
    assert after.early == [fast]
    ((slow, to),) = retiring.take(slow, Q0).messages
    assert to == Q2
    passed = after.take(slow, Q1).messages
    onward = retiring.rerouted(notice).notices
    assert onward == [Rerouted(5, Q2, Q0, ("G3",))]
    passed += after.rerouted(onward[0]).messages
    assert [message.number for message, _ in passed] == [0, 1]
    assert after.previous["G3"] == Q0
    assert set(retiring.following) == {"G2"}
    assert not retiring.retired


def test_an_ingress_sends_past_a_retiring_atom_unless_its_fin_is_on_its_way():
    views = views_of({"G0": "AB", "G1": "AB"})
    pair = ("G0", "G1")
    ingress = GroupIngress("G1")
    ingress.publish(GroupMessage("G1", "A", "x"), views)
    assert ingress.first == {2: pair}
    request = Reroute(2, pair, None, (("G1", None),))
    views.remove("G1")
    ended = GroupIngress("G1", view=2, open=True, first={2: pair})
    ended.switch(views)
    assert reroute_ingress(ended, request) is None
    assert reroute_ingress(ingress, request) == Rerouted(2, pair, None, ("G1",))
    assert ingress.first == {2: None}


def test_an_atom_numbers_nothing_when_its_overlap_is_gone():
    atom = ViewAtom.of(views_of({"G0": "AB", "G1": "AB"}).views[2], ("G0", "G1"))
    assert atom.take(numbered("G0", view=2, last=True), None).messages[0][0].stamps
    ((message, to),) = atom.take(numbered("G1", view=2), None).messages
    assert (message.stamps, to) == ((), None)
    receiver = Receiver("A", frozenset({"G0", "G1"}), frozenset({("G0", "G1")}))
    assert receiver.take(message)[0] == "held"
    fin = GroupMessage("G0", "", None, 0, ((("G0", "G1"), 0),), 2, last=True)
    assert receiver.take(fin)[1] == (fin, message)


def test_a_message_off_its_path_is_refused():
    atom = ViewAtom.of(views_of({"G0": "AB", "G1": "AB"}).views[2], ("G0", "G1"))
    with pytest.raises(ValueError, match="repair the path"):
        atom.take(numbered("G7"), None)


def test_one_atom_of_a_view_retires_at_a_time():
    some = Retirements()
    assert some.ask(1, Q0, ["G1", "G3"])
    assert some.ask(1, Q0, ["G1", "G3"])
    assert not some.ask(1, Q1, ["G2"])
    assert some.ask(2, Q1, ["G2"])
    some.settled(1, ["G1"])
    assert not some.ask(1, Q1, ["G2"])
    some.settled(1, ["G3"])
    assert some.ask(1, Q1, ["G2"])
    some.withdraw(1, Q0)
    assert not some.ask(1, Q0, ["G1"])
    some.withdraw(1, Q1)
    assert some.ask(1, Q0, ["G1"])
    some.settled(9, ["G1"])


def test_what_came_early_is_given_out_in_the_order_of_its_arrival():
    old, new, pair = ("x", "y"), ("v", "w"), ("g", "h")
    atom = ViewAtom(1, Atom(pair), dict.fromkeys(pair), dict.fromkeys(pair, old))
    early = [numbered("h", view=1), numbered("g", view=1), numbered("h", 1, view=1)]
    for message in early:
        assert atom.take(message, new) == Onward()
    late = atom.take(numbered("g", 7, view=1), old).messages[0][0]
    out = atom.rerouted(Rerouted(1, pair, new, pair)).messages
    assert [message.body for message, _ in out] == [message.body for message in early]
    assert [late.stamps[0][1], *(message.stamps[0][1] for message, _ in out)] == [0, 1, 2, 3]


class TakesTheNewWayAtOnce(ViewAtom):
    """Does not wait for what is still on the old way (but for a FIN)."""

    def take(self, message, source):
        if not message.last:
            source = self.previous.get(message.group, source)
        return ViewAtom.take(self, message, source)


def first_broken(kind, seeds, **sizes):
    class World(Changing):
        atom_type = kind

    for seed in seeds:
        world = World(seed, 5).run(**sizes)
        if world.anomaly() or any(each.holding for each in world.subscribers.values()):
            return seed
    return None


SIZES = {"publishing": 30, "changes": 6}


def test_the_old_way_must_be_empty_before_the_new_one_begins():
    seed = first_broken(TakesTheNewWayAtOnce, range(3000), **SIZES)
    assert seed is not None
    assert first_broken(ViewAtom, [seed], **SIZES) is None


def test_a_receiver_must_wait_for_the_end_of_a_group_that_gives_no_numbers(monkeypatch):
    monkeypatch.setattr(Receiver, "_rest_has_ended", lambda *_: True)
    seed = first_broken(ViewAtom, range(3000), **SIZES)
    assert seed is not None
    monkeypatch.undo()
    assert first_broken(ViewAtom, [seed], **SIZES) is None
