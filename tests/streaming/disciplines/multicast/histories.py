"""Random histories of multicasts and commands about nodes, for tests of the batch's order."""

import json
import random

from tests.streaming.verify.worlds import Topics

PEERS = [b"p%d" % n for n in range(6)] + [b"\xff\xfe", b"peer with a long name", b"@"]
NODES = [f"n{n}" for n in range(6)]


def random_record(rng, topics, at):
    some = [rng.choice(PEERS[:8]) for _ in range(rng.randrange(4))]
    some += [b"@" + rng.choice(NODES).encode() for _ in range(rng.randrange(3))]
    rng.shuffle(some)
    headers = [("x", rng.choice([None, b"", b"\x00\xff"]))] * rng.randrange(3)
    if rng.random() < 0.95:
        headers.append(
            (
                "to",
                rng.choice([None, b"", b"a,", b"@nope"]) if rng.random() < 0.1 else b",".join(some),
            )
        )
    if rng.random() < 0.5:
        passed = b",".join(b"@" + n.encode() for n in rng.choices(NODES, k=rng.randrange(4)))
        headers.append(
            ("handles", rng.choice([None, b"p1", b"@n1,"]) if rng.random() < 0.1 else passed)
        )
    if rng.random() < 0.05:
        headers.append(("to", b"p1,p2"))
    rng.shuffle(headers)
    key = None if rng.random() < 0.03 else rng.choice([b"", *PEERS])
    value = rng.choice([None, b"", b"v%d" % at])
    topics.put("in", rng.randrange(3), 1000 + at, key, value, headers)


def random_command(rng, topics, at, *, in_input=False):
    op = rng.choice(["create-node", "create-node", "destroy-node", "release", "release"])
    value = {"op": op, "node": rng.choice(NODES), "id": f"c{at}"}
    value |= {"owner": rng.choice(PEERS[:6]).decode(), "peer": rng.choice(PEERS[:6]).decode()}
    text = json.dumps(value).encode()
    bad = [b"{", b"", None, b"7", b'{"op": "grow", "node": "n1"}']
    text = rng.choice(bad) if rng.random() < 0.1 else text
    if in_input:
        key = rng.choice([*PEERS[:3], b"p1", None])
        topics.put("in", rng.randrange(3), 2000 + at, key, text, [("op", op.encode())])
    else:
        topics.put("commands", rng.randrange(2), 2000 + at, None, text)


def history(seed, steps=120, *, in_input=0.0):
    """``in_input``: how many of the commands are records of an input."""
    rng, topics = random.Random(seed), Topics()
    for name in NODES[:3]:
        value = {"op": "create-node", "node": name, "owner": "p1"}
        topics.put("commands", 0, 1, None, json.dumps(value).encode())
    for at in range(steps):
        if rng.random() < 0.2:
            random_command(rng, topics, at, in_input=bool(in_input) and rng.random() < in_input)
        else:
            random_record(rng, topics, at)
    return topics
