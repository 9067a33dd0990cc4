"""Both buses step by step: nodes, handles, limits, refusals."""

import pytest

from sequencer.multicast.protocol.bus import ClockBus, CounterBus
from sequencer.multicast.protocol.clock_messages import Block, Clock, Register
from sequencer.multicast.protocol.counter_messages import COUNTER, CopyIn, Read
from sequencer.multicast.protocol.words import (
    Destination,
    LimitError,
    Limits,
    Message,
    Notice,
    ProtocolError,
    Refusal,
    TransactionId,
)
from tests.sequencer.multicast.buses import BUSES, names, read


@pytest.mark.parametrize("bus_type", BUSES)
def test_messages_come_in_the_order_of_sending(bus_type):
    bus = bus_type()
    for message, sender, to in (("a", "P", "QR"), ("b", "P", "R"), ("c", "Q", "RQ")):
        bus.send(message, sender, to)
        bus.run()
    assert names(bus, "Q") == ["a", "c"]
    assert names(bus, "R") == ["a", "b", "c"]
    assert bus.dequeue("R") is None


@pytest.mark.parametrize("bus_type", BUSES)
def test_a_destination_named_twice_counts_once_and_two_nodes_are_two_deliveries(bus_type):
    bus = bus_type()
    bus.create_node("n", "R")
    bus.create_node("m", "R")
    bus.send("a", "P", ["R", "@n", "R", "@m", "@n"], ["@n", "n"])
    bus.run()
    got = read(bus, "R")
    assert [delivery.node for delivery in got] == [None, "n", "m"]
    assert {delivery.stamp for delivery in got} == {(1, "P")}
    assert [delivery.handles for delivery in got] == [("n",)] * 3


@pytest.mark.parametrize("bus_type", BUSES)
def test_a_destroyed_node_is_left_out_and_told_of(bus_type):
    bus = bus_type()
    bus.create_node("n", "R")
    early = bus.send("a", "P", ["@n", "Q"])
    bus.run()
    end = bus.destroy("~n", "n")
    bus.run()
    late = bus.send("b", "P", ["@n", "Q"])
    only = bus.send("c", "P", ["@n"])
    again = bus.destroy("~~n", "n")
    bus.run()
    assert early.stamp < end.stamp < late.stamp
    assert (early.gone, late.gone) == (set(), {"n"})
    assert only.refusal.reason == again.refusal.reason == Refusal.DESTROYED_NODE
    assert only.stamp is None
    assert names(bus, "Q") == ["a", "b"]
    assert [type(delivery).__name__ for delivery in read(bus, "R")] == ["Delivery", "Notice"]


@pytest.mark.parametrize("bus_type", BUSES)
def test_a_notice_goes_to_the_owner_and_to_holders(bus_type):
    bus = bus_type()
    bus.create_node("n", "R")
    bus.send("a", "P", ["Q"], ["@n"])
    bus.send("b", "P", ["S"])
    bus.run()
    stamp = bus.destroy("~n", "n")
    bus.run()
    bus.send("c", "P", ["Q"], ["@n"])
    bus.run()
    first, notice, second = read(bus, "Q")
    assert (first.handles, first.handles_invalid) == (("n",), ())
    assert notice == Notice("~n", stamp.stamp, "n", known=True)
    assert (second.handles, second.handles_invalid) == ((), ("n",))
    assert read(bus, "R") == [Notice("~n", stamp.stamp, "n", known=False)]
    assert names(bus, "S") == ["b"]


@pytest.mark.parametrize("bus_type", BUSES)
def test_names_that_nobody_has_are_refused_at_once(bus_type):
    bus = bus_type()
    with pytest.raises(ProtocolError, match=r"no node @?n; nothing was sent"):
        bus.send("a", "P", ["@n"])
    with pytest.raises(ProtocolError, match=r"no node @?n; nothing was sent"):
        bus.send("a", "P", ["Q"], ["@n"])
    with pytest.raises(ValueError, match="has no destination"):
        bus.send("a", "P", [])
    bus.create_node("n", "R")
    with pytest.raises(ProtocolError, match="take another name"):
        bus.create_node("n", "Q")


@pytest.mark.parametrize("bus_type", BUSES)
def test_a_node_that_the_owner_does_not_know_refuses_the_whole_message(bus_type):
    bus = bus_type()
    task = Message("a", "P", (Destination("Q"), Destination("R", "n")))
    passing = Message("b", "P", (Destination("Q"),), ("n",), ("R",))
    sent = [bus.line("P").send(message) for message in (task, passing)]
    bus.run()
    assert [one.refusal.reason for one in sent] == [Refusal.BAD_DESTINATION] * 2
    bus.send("c", "P", ["Q"])
    bus.run()
    assert names(bus, "Q") == ["c"]
    assert all(len(bus.party(peer).queue) == 0 for peer in "QR")


@pytest.mark.parametrize("bus_type", BUSES)
def test_a_full_queue_refuses_the_whole_message_and_leaves_nothing(bus_type):
    bus = bus_type(Limits(entries_max=2))
    for message in "ab":
        bus.send(message, "P", ["Q"])
    bus.run()
    full = bus.send("c", "P", ["Q", "R"])
    bus.run()
    assert full.refusal.reason == Refusal.NO_ROOM
    assert "send again" in full.refusal.detail
    assert names(bus, "R") == []
    assert names(bus, "Q") == ["a", "b"]
    fits = bus.send("d", "P", ["Q", "R"])
    bus.run()
    assert fits.stamp is not None
    assert names(bus, "Q") == names(bus, "R") == ["d"]


def test_a_full_queue_refuses_a_unicast():
    bus = ClockBus(Limits(entries_max=1))
    sent = [bus.send(message, "P", ["Q"]) for message in "ab"]
    bus.run()
    assert [one.refusal and one.refusal.reason for one in sent] == [None, Refusal.NO_ROOM]
    assert names(bus, "Q") == ["a"]


@pytest.mark.parametrize("bus_type", BUSES)
def test_holders_nodes_and_flights_are_limited(bus_type):
    bus = bus_type(Limits(holders_max=2, nodes_max=1, in_flight_max=1))
    bus.create_node("n", "R")
    with pytest.raises(LimitError, match="m was not created"):
        bus.create_node("m", "R")
    fits = bus.send("a", "P", ["Q", "S"], ["@n"])
    with pytest.raises(LimitError, match="send it again when one has ended"):
        bus.send("b", "P", ["Q"])
    bus.run()
    more = bus.send("c", "P", ["Q", "T"], ["@n"])
    bus.run()
    assert fits.stamp is not None
    assert more.refusal.reason == Refusal.NO_ROOM
    assert names(bus, "T") == []
    assert names(bus, "Q") == ["a"]


def test_a_message_refused_for_one_handle_makes_no_holders_of_another():
    """Else the counter kept somebody as a holder who never got a handle, and never lets go."""
    bus = CounterBus(Limits(holders_max=1))
    for node in "mn":
        bus.create_node(node, "R")
    bus.send("a", "P", ["Q"], ["@n"])
    bus.run()
    both = bus.send("b", "P", ["T"], ["@m", "@n"])
    bus.run()
    assert both.refusal.reason == Refusal.NO_ROOM
    fits = bus.send("c", "P", ["S"], ["@m"])
    bus.run()
    assert fits.refusal is None
    assert names(bus, "S") == ["c"]


def test_handles_on_the_way_to_a_peer_are_limited():
    bus = ClockBus(Limits(handles_max=1))
    bus.create_node("n", "R")
    bus.create_node("m", "R")
    two = bus.send("a", "P", ["Q"], ["@n", "@m"])
    one = bus.send("b", "P", ["Q"], ["@n"])
    bus.run()
    assert two.refusal.reason == Refusal.NO_ROOM
    assert one.refusal is None
    assert names(bus, "Q") == ["b"]


@pytest.mark.parametrize("bus_type", [ClockBus, CounterBus])
def test_a_destruction_finds_room_in_full_queues(bus_type):
    """Half a destruction would stay: nobody could destroy the node, or pass its handle, again."""
    bus = bus_type(Limits(entries_max=1))
    bus.create_node("n", "R")
    bus.create_node("m", "R")
    bus.send("a", "P", ["Q"], ["@n"])
    bus.run()
    assert names(bus, "Q") == ["a"]
    bus.send("b", "P", ["Q", "R"])
    bus.run()
    ends = [bus.destroy(f"~{node}", node) for node in "nm"]
    full = bus.send("c", "P", ["Q"])
    bus.run()
    assert [end.refusal for end in ends] == [None, None]
    assert full.refusal.reason == Refusal.NO_ROOM
    assert names(bus, "Q") == ["b", "~n"]
    passed = bus.send("d", "P", ["Q"], ["@n"])
    bus.run()
    assert passed.refusal is None
    assert bus.dequeue("Q").handles_invalid == ("n",)


def test_a_full_handle_table_refuses_nothing_without_handles():
    """What is announced twice counts once until one of the two has brought the handle."""
    bus = ClockBus(Limits(handles_max=2))
    bus.create_node("n", "R")
    bus.create_node("m", "R")

    def until(sent, phase):
        while sent.phase != phase:
            bus.do(sent.requests()[0])

    first, second = (bus.send(name, sender, ["Q"], ["@n"]) for name, sender in ("aA", "bB"))
    until(first, "queue")
    until(second, "register")
    until(bus.send("c", "C", ["Q"], ["@m"]), "register")
    until(first, "done")
    assert bus.dequeue("Q").handles == ("n",)
    end = bus.destroy("~n", "n")
    plain = bus.send("d", "D", ["Q", "S"])
    bus.run()
    assert end.refusal is plain.refusal is None


def test_a_destroyed_node_can_be_forgotten_and_only_then():
    bus = ClockBus()
    bus.create_node("n", "R")
    nodes = bus.party("R").nodes
    with pytest.raises(ProtocolError, match="it was kept"):
        nodes.forget("n")
    bus.destroy("~n", "n")
    bus.run()
    nodes.forget("n")
    unknown = bus.send("a", "P", ["@n", "Q"])
    bus.run()
    assert unknown.refusal.reason == Refusal.BAD_DESTINATION


def test_registration_waits_for_a_destruction_under_way():
    bus = ClockBus()
    bus.create_node("n", "R")
    bus.send("a", "P", ["Q"], ["@n"])
    bus.run()
    end = bus.destroy("~n", "n")
    while end.phase != "tick":
        bus.do(end.requests()[0])
    late = bus.send("b", "P", ["Q"], ["@n"])
    while late.phase != "register":
        bus.do(late.requests()[0])
    (ask,) = late.requests()
    assert isinstance(ask, Register)
    bus.do(ask)
    assert late.requests() == ()
    assert list(late.waiting) == ["n"]
    bus.do(end.requests()[0])
    assert late.phase == "tick"
    bus.run()
    assert late.stamp > end.stamp


@pytest.mark.parametrize("bus_type", BUSES)
def test_a_reply_that_was_not_asked_for_changes_nothing(bus_type):
    bus = bus_type()
    sent = bus.send("a", "P", ["Q", "R"])
    state = sent.state()
    with pytest.raises(ProtocolError, match="expects no"):
        sent.receive(Clock(TransactionId("P", 0), "Q", 7))
    with pytest.raises(ProtocolError, match="in flight"):
        bus.line("P").receive(Clock(TransactionId("P", 9), "P", 7))
    assert sent.state() == state


@pytest.mark.parametrize("bus_type", BUSES)
def test_a_step_for_someone_else_is_refused(bus_type):
    bus = bus_type()
    wrong = {ClockBus: Block, CounterBus: CopyIn}[bus_type](TransactionId("P", 0), "Q", 0, ())
    with pytest.raises(ProtocolError, match="the step of Q"):
        bus.party("R").handle(wrong)
    if bus_type is CounterBus:
        read_step = Read(TransactionId("P", 0), "Q", (), None)
        with pytest.raises(ProtocolError, match="does not know"):
            bus.party("Q").handle(read_step)
        with pytest.raises(ProtocolError, match="does not know"):
            bus.party(COUNTER).handle(wrong)


@pytest.mark.parametrize("bus_type", BUSES)
def test_a_bus_continues_from_its_state(bus_type):
    """Saved and loaded after every step, it does what it does in one go."""
    histories = []
    for saved in (False, True):
        bus = bus_type()
        bus.create_node("n", "R")
        bus.create_node("m", "Q")
        bus.send("a", "P", ["@n", "Q"], ["@m"])
        bus.send("b", "Q", ["@n", "P"], ["@n"])
        bus.destroy("~n", "n")
        bus.send("c", "R", ["P", "Q", "@m"], ["@n"])
        while requests := bus.requests():
            bus.do(min(requests, key=repr))
            if saved:
                other = bus_type()
                other.load(bus.state())
                assert other.state() == bus.state()
                bus = other
        histories.append([read(bus, peer) for peer in "PQR"])
    assert histories[0] == histories[1]
    assert all(histories[0])
