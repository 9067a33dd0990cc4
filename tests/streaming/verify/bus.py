"""A history of discipline `multicast` with something of everything, to plant faults in."""

from streaming.verify.accounts import Settings
from streaming.verify.multicast import judge
from tests.streaming.verify.multicast_worlds import Multicasts
from tests.streaming.verify.plants import require_found_in
from tests.streaming.verify.worlds import NOW_MS, settings_for


def bus():
    """Messages between three peers, two nodes of which one ends, handles, and rejects.

    All three get handles to the node that ends; C gives its own back before.
    """
    world = Multicasts(1, begin_ms=NOW_MS - 1_000_000)

    def send(sender, to, handles=...):
        world.clock += 1
        world.send(sender, to, handles, b"%d" % world.clock, int(sender != b"a"))

    world.do({"op": "create-node", "node": "n1", "owner": "A", "id": "c1"})
    world.do({"op": "create-node", "node": "n2", "owner": "B", "id": "c2"})
    send(b"a", b"A,B,C")
    send(b"a", b"A,B", b"@n1")
    send(b"b", b"A,B,C,@n1,@n2", b"@n1,@n2")
    send(b"b", b"B,C", b"")
    send(b"a", b"B,C")
    send(b"a", b"@n1", b"@n2")
    world.do({"op": "release", "node": "n1", "peer": "C", "id": "c5"})
    world.do({"op": "destroy-node", "node": "n1", "id": "c3", "by": "ann"})
    world.do({"op": "destroy-node", "node": "n1", "id": "c4"})
    send(b"a", b"A,C,@n1", b"@n1,@n2")
    send(b"b", b"@n1")
    send(b"b", b"A,,B")
    send(b"b", b"A,@nope")
    send(None, b"A,B")
    send(b"b", b"A,B,C")
    send(b"a", b"A,B,C,@n2")
    return world


def find(m, key, value, nth=0):
    return [at for at, r in enumerate(m.outputs) if r.key == key and r.value == value][nth]


def verdict_on(m):
    return judge(settings_for(Settings, bus()), m.material())


def require_found(plant, name):
    require_found_in(bus(), verdict_on, plant, name)
