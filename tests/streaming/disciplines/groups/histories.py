"""Random histories of messages to groups and commands among them, for tests of both ways."""

import json
import random

from tests.streaming.verify.worlds import Topics

OPS = ("add", "set", "remove", "join", "leave")
GROUPS = {"G0": ["a", "b", "c"], "G1": ["b", "c"], "G2": ["d"]}


def history(seed, count=120, topics=None):
    """Messages and commands of one input partition, and a few commands of operators."""
    rng, topics = random.Random(seed), topics or Topics()
    for n in range(count):
        group = f"G{rng.randrange(4)}"
        op = rng.choice(OPS) if rng.random() < 0.3 else None
        if op is None:
            topics.put("in", 0, n, b"p", b"%d" % n, [("group", group.encode())])
            continue
        value = {"group": group, "id": f"c{n}"}
        if op in ("join", "leave"):
            value["member"] = rng.choice("abcdef")
        elif op != "remove":
            value["members"] = rng.sample("abcdef", rng.randrange(1, 5))
        if op != "add" and rng.random() < 0.2:
            value["if_version"] = rng.randrange(3)
        if rng.random() < 0.8:
            topics.put("in", 0, n, b"p", json.dumps(value).encode(), [("op", op.encode())])
        else:
            whole = json.dumps({**value, "op": op}).encode()
            topics.put("commands", 0, n, None, whole)
    return topics
