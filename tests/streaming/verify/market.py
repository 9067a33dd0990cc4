"""A history of discipline `group` with something of everything, to plant faults in."""

from streaming.verify.group import GroupSettings, judge
from tests.streaming.verify.group_worlds import Groups
from tests.streaming.verify.plants import require_found_in
from tests.streaming.verify.worlds import settings_for

GROUPS = {
    "G0": ["A", "B", "C"],
    "G1": ["B", "C", "D"],
    "X": ["K", "L"],
    "Y": ["L", "M"],
    "Z": ["M", "K"],
}
SIGNED = {"by": "ann", "why": "she asked"}


def market():
    """A few messages for each group, a group that comes, changes and goes, and rejects."""
    world = Groups(1, GROUPS)

    def some(names):
        for name in names:
            world.clock += 1
            value = b"%d" % world.clock
            world.send(b"p%d" % (world.clock % 3), name.encode(), value, world.clock % 3 % 2)

    some(["G0", "G1", "G0", "G0", "G1", "G1", "G0", "G1"])
    world.send(b"solo", b"X", b"x")
    world.send(b"solo", b"Y", b"y")
    world.send(b"duo", b"Z", b"z")
    world.do({"op": "add", "group": "G2", "members": ["A", "B"], "id": "c1"})
    some(["G2", "G0", "G2", "G1", "G2"])
    world.do({"op": "set", "group": "G2", "members": ["B", "C", "D"], "id": "c2"} | SIGNED)
    some(["G2", "G1", "G2", "G0", "G2", "G2"])
    world.do({"op": "add", "group": "G2", "members": ["A"], "id": "c3"})
    world.do({"op": "join", "group": "G2", "member": "K", "id": "j1"})
    world.do({"op": "join", "group": "G2", "member": "K", "id": "j2"})
    some(["G2", "G0"])
    world.do({"op": "leave", "group": "G2", "member": "K", "id": "l1", "if_version": 0})
    world.do({"op": "leave", "group": "G2", "member": "K", "id": "l2"})
    some(["G2", "G1", "G2"])
    world.do({"op": "remove", "group": "G2", "id": "c4"})
    some(["G2", "G0", "G1", "nope", "G0", "G1"])
    world.send(None, b"G0", b"nobody's")
    world.send(b"p1", b"", b"nowhere")
    return world


def find(m, key, group, nth=0):
    """The place of the n-th delivery of a group to a key."""
    return [
        at
        for at, r in enumerate(m.outputs)
        if r.key == key and r.header("group") == group and r.header("sender")
    ][nth]


def verdict_on(m, **more):
    return judge(settings_for(GroupSettings, market(), groups=groups(), **more), m.material())


def groups():
    return {name: frozenset(members) for name, members in GROUPS.items()}


def require_found(plant, name):
    require_found_in(market(), verdict_on, plant, name)
