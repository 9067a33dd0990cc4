"""The nodes that a pipeline has now, as its answers to commands say."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

from streaming.config import parse_config
from streaming.verify import current


def done(second, op, offset, topic="p.commands", **fields):
    at = f"2026-11-28T10:00:{second:02}.000Z"
    place = {"topic": topic, "partition": 0, "offset": offset}
    event = {"event": "command-done", "at": at, **place, "op": op, "node": "n", **fields}
    return SimpleNamespace(value=json.dumps(event).encode())


def nodes_after(monkeypatch, *answers):
    topics = SimpleNamespace(each=lambda _topic: answers)
    monkeypatch.setattr(current, "Topics", lambda *_: nullcontext(topics))
    tables = {"pipelines": {"p": {"discipline": "multicast"}}}
    return current.nodes(parse_config(tables, {}, "c.toml"), "p")


def test_answers_are_taken_in_the_order_of_their_commands(monkeypatch):
    create, again = (done(n, "create-node", n, owner=f"p{n}") for n in (1, 3))
    destroy = done(2, "destroy-node", 2)
    assert nodes_after(monkeypatch, destroy, create) == {}
    assert nodes_after(monkeypatch, again, destroy, create) == {"n": "p3"}
    late = done(2, "destroy-node", 0, topic="p.in")
    assert nodes_after(monkeypatch, late, create) == {}


def test_also_where_the_clock_was_set_back(monkeypatch):
    create = done(50, "create-node", 1, owner="p1")
    destroy = done(2, "destroy-node", 2)
    assert nodes_after(monkeypatch, create, destroy) == {}
    again = done(3, "create-node", 3, owner="p3")
    assert nodes_after(monkeypatch, again, create, destroy) == {"n": "p3"}
