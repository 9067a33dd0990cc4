"""Groups as the console follows and draws them."""

import json
from pathlib import Path

import pytest

from streaming.config import load_config
from streaming.console import drawing
from streaming.console.access import Access
from streaming.console.groups_now import GroupsNow
from streaming.console.values import encoded_key
from streaming.verify import current
from tests.browser import PHONE, missing, opened
from tests.console_helpers import serving
from tests.kafka_helpers import Record, create_topics, produce
from tests.service_helpers import channel_topics, write_config

MEMBERS = {"G0": ["A", "B", "C"], "G1": ["B", "C", "D"], "<b>": ["A"]}


def configured(folder, bootstrap, topics, **more):
    pipeline = {"discipline": "group", "groups": MEMBERS, **topics, **more}
    return load_config(Path(write_config(folder, bootstrap, {"g": pipeline})))


@pytest.mark.parametrize("sequencing", ["batch", "network"])
def test_a_group_in_the_picture_leads_to_its_page(tmp_path, sequencing):
    config = configured(tmp_path, "127.0.0.1:9", channel_topics("t."), sequencing=sequencing)
    drawn = drawing.groups(config, "g", MEMBERS)
    for group in MEMBERS:
        assert f'href="/p/g/group/{encoded_key(group)}" target="_top"' in drawn
    assert ('id="node-' in drawn) == (sequencing == "network"), "nodes and their load"
    assert "<b>" not in drawn


def test_events_are_followed_from_where_they_were_read(broker, topic_prefix, tmp_path):
    topics = channel_topics(topic_prefix)
    config = configured(tmp_path, broker.bootstrap, topics)
    create_topics(broker.bootstrap, {topics["events"]: 2})
    groups = GroupsNow(config)
    assert sorted(groups.of("g")) == sorted(MEMBERS)

    def say(**event):
        record = Record(event["group"].encode(), json.dumps(event).encode(), [])
        produce(broker.bootstrap, topics["events"], [record])

    say(event="group-added", group="G2", version=1, members=["X"])
    assert groups.of("g")["G2"].members == ["X"]
    say(event="group-changed", group="G2", version=2, joined="Y")
    say(event="group-removed", group="G0")
    assert groups.of("g") == current.now(config, "g")
    assert groups.of("g")["G2"].members == ["X", "Y"]
    read = dict(groups._known["g"].read)
    assert sum(read.values()) == 3, "each event once"
    groups.of("g").clear()
    assert "G2" in groups.of("g"), "what was given away is a copy"


LONG = {"G" * 200: ["M" * 200, "B"], "H": ["M" * 200, "B"]}


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_long_names_fit_a_phone(broker, topic_prefix, tmp_path):
    topics = channel_topics(topic_prefix)
    create_topics(broker.bootstrap, dict.fromkeys(topics.values(), 1))
    config = {"discipline": "group", "groups": LONG, **topics}
    path = Path(write_config(tmp_path, broker.bootstrap, {"g": config}))
    pages = [f"group/{encoded_key(group)}" for group in LONG]
    pages += ["groups", f"subscriber/{encoded_key('M' * 200)}"]
    with serving(path, Access()) as port, opened(f"http://127.0.0.1:{port}") as page:
        page.set_viewport_size(PHONE)
        for each in pages:
            assert page.goto(f"/p/g/{each}").status == 200
            assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"], each


FOREIGN = [
    b"none", b"[1]", b"[" * 100_000, b"\xff", None, b'{"event": "group-added"}',
    b'{"event": "group-moved", "group": "G0"}', b'{"event": ["group-changed"], "group": 1}',
    b'{"event": "group-changed", "group": "G0", "version": 1, "members": 5}',
    b'{"event": "group-changed", "group": "G0", "version": 1, "joined": {}}',
    b'{"event": "command-done", "op": "create-node"}', b'{"event": "command-done", "op": {}}',
    b'{"event": "command-done", "op": "create-node", "node": [], "owner": "p", "at": 1}',
]  # fmt: skip


def test_records_of_others_on_the_events_topic_are_passed_over(broker, topic_prefix, tmp_path):
    topics = channel_topics(topic_prefix)
    config = configured(tmp_path, broker.bootstrap, topics)
    create_topics(broker.bootstrap, {topics["events"]: 1})
    place = {"at": "t", "topic": topics["commands"], "partition": 0, "offset": 0}
    events = [
        {"event": "group-added", "group": "G2", "version": 1, "members": ["X"]},
        {"event": "command-done", "op": "create-node", "node": "n", "owner": "p", **place},
    ]
    values = [*FOREIGN, *(json.dumps(each).encode() for each in events)]
    produce(broker.bootstrap, topics["events"], [Record(b"k", value) for value in values])
    groups = current.now(config, "g")
    assert groups == GroupsNow(config).of("g")
    assert {name: each.members for name, each in groups.items()} == {**MEMBERS, "G2": ["X"]}
    assert current.nodes(config, "g") == {"n": "p"}
