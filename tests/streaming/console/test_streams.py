"""Lanes of groups, subscribers, peers and channels, from records that stand in memory."""

from pathlib import Path
from types import MappingProxyType

import pytest

from streaming.config import load_config
from streaming.console import streams, values, waits
from streaming.console.streams import Scope
from streaming.kafka.newest import Found, Search
from tests.service_helpers import channel_topics, write_config


@pytest.fixture
def topics(monkeypatch):
    """Records by topic; a search finds in them what it would find in Kafka."""
    found = {}

    def search(_config, names, wanted, most, *, until=MappingProxyType({}), **_more):
        assert not any("{" in name for name in names), "Kafka has no such topic"
        result = Search()
        for home in {each.home for name in names for each in found.get(name, [])}:
            inside = [each for each in found[home[0]] if each.home == home]
            end = until.get(home, inside[-1].offset + 1)
            result.looked[home] = (0, end)
            result.records += [each for each in inside if each.offset < end and wanted(each)][
                -most:
            ]
        return result

    monkeypatch.setattr(streams, "search", search)
    monkeypatch.setattr(streams, "existing", lambda _config: found, raising=False)
    monkeypatch.setattr(waits, "waiting", lambda *_: [])
    return found


def config_of(tmp_path, **pipeline):
    return load_config(
        Path(write_config(tmp_path, "127.0.0.1:9", {"p": {**channel_topics("t."), **pipeline}}))
    )


def record(topic, offset, key, value=b"", at=0, partition=0, **headers):
    pairs = tuple((name.replace("_", "-"), text.encode()) for name, text in headers.items())
    return Found(topic, partition, offset, at, key, value, pairs)


def lines(picture):
    """How many arrivals are joined with their deliveries."""
    return picture.count("<line")


def test_a_group_shows_one_copy_of_each_message(tmp_path, topics):
    config = config_of(tmp_path, discipline="group", groups={"G": ["A", "B"], "H": ["A"]})
    topics["t.in"] = [record("t.in", n, b"s", b"%d" % n, n, group="GH"[n % 2]) for n in range(6)]
    topics["t.out"] = [
        record(
            "t.out",
            10 * n + at,
            key,
            b"%d" % n,
            n,
            group="G",
            sender="s",
            group_version="0",
            group_sequence=str(n // 2),
        )
        for n in (0, 2, 4)
        for at, key in enumerate((b"A", b"B"))
    ]
    found = streams.group(config, "p", "G", "AB", Scope(1))
    assert [number for _, number in found["deliveries"]] == ["0", "1", "2"]
    assert lines(found["picture"]) == 3
    assert found["picture"].count("mark delivered") == 6


def test_subscribers_with_topics_of_their_own(tmp_path, topics):
    """B was added by a command, C's topic is not made yet."""
    config = config_of(tmp_path, discipline="group", groups={"G": ["A"]}, output="t.{subscriber}")
    sent = {"group": "G", "sender": "s", "group_version": "1", "group_sequence": "0"}
    topics["t.in"] = [record("t.in", 0, b"s", b"v", 7, group="G")]
    for key in "AB":
        own = f"t.{key}"
        topics[own] = [record(own, 0, key.encode(), b"v", 7, **sent, sequence="0")]
        found = streams.subscriber(config, "p", key.encode(), Scope(1))
        assert [number for _, number in found["deliveries"]] == ["0"]
    found = streams.group(config, "p", "G", ["A", "B", "C"], Scope(1))
    assert [number for _, number in found["deliveries"]] == ["0"]
    assert lines(found["picture"]) == 1


def test_a_subscriber_s_stream_is_joined_by_content_and_notices_are_not(tmp_path, topics):
    config = config_of(tmp_path, discipline="group", groups={"G": ["A"], "H": ["A"]})
    topics["t.in"] = [record("t.in", n, b"s", b"same", 7, group="GH"[n]) for n in range(2)]
    topics["t.out"] = [
        record("t.out", 0, b"A", b"same", 7, group="H", sender="s", sequence="0"),
        record("t.out", 1, b"A", b"", 8, notice="joined", sequence="1"),
        record("t.out", 2, b"A", b"same", 7, group="G", sender="s", sequence="2"),
        record("t.out", 3, b"B", b"same", 7, group="G", sender="s", sequence="0"),
    ]
    found = streams.subscriber(config, "p", b"A", Scope(1))
    assert [number for _, number in found["deliveries"]] == ["0", "1", "2"]
    assert lines(found["picture"]) == 2


@pytest.mark.parametrize("origin", ["", "t.in/0@1"])
def test_a_peer_by_content_or_by_origin(tmp_path, topics, origin):
    config = config_of(tmp_path, discipline="multicast")
    topics["t.in"] = [record("t.in", n, b"p%d" % n, b"v", 5, to="q") for n in range(2)]
    more = {"origin": origin} if origin else {}
    sender = "p0" if origin else "p1"
    out = record("t.out", 0, b"q", b"v", 5, **{"from": sender}, sequence="0", **more)
    topics["t.out"] = [out]
    found = streams.subscriber(config, "p", b"q", Scope(1))
    assert "t.in/0@1: label p1, delivered" in found["picture"]
    assert lines(found["picture"]) == 1


def test_a_channel_whose_input_is_another_pipeline_s_output(tmp_path, topics):
    """The header `origin` of the first one stays on the record."""
    config = config_of(tmp_path)
    own = [{"origin": f"a.in/0@{5 + n}", "label": str(n)} for n in range(3)]
    topics["t.in"] = [record("t.in", n, b"K", b"%d" % n, n, **own[n]) for n in range(3)]
    more = [{**each, "sequence": each["label"], "incarnation": "9"} for each in own]
    topics["t.out"] = [record("t.out", n, b"K", b"%d" % n, n, **more[n]) for n in range(3)]
    found = streams.channel(config, "p", b"K", Scope(1))
    assert lines(found["picture"]) == 3


def test_a_labelled_channel(tmp_path, topics):
    config = config_of(tmp_path, discipline="label")
    topics["t.in"] = [record("t.in", n, b"K", b"%d" % n, n) for n in range(3)]
    topics["t.out"] = [
        record("t.out", n, b"K", b"%d" % n, n, label=str(n), sequence=str(n)) for n in range(3)
    ]
    found = streams.subscriber(config, "p", b"K", Scope(1))
    assert lines(found["picture"]) == 3


def test_a_channel_s_rejects_are_crosses(tmp_path, topics):
    config = config_of(tmp_path)
    labels = ("0", "0", "2")
    topics["t.in"] = [record("t.in", n, b"K", label=label) for n, label in enumerate(labels)]
    topics["t.out"] = [record("t.out", 0, b"K", label="0", sequence="0")]
    place = {"reject_topic": "t.in", "reject_partition": "0", "reject_offset": "1"}
    topics["t.rejects"] = [record("t.rejects", 0, b"K", reject_reason="duplicate", **place)]
    found = streams.channel(config, "p", b"K", Scope(1))
    assert [each.fate for each, _ in found["arrivals"]] == ["delivered", "rejected", "held"]
    assert [each.why for each, _ in found["arrivals"]] == ["", "duplicate", ""]


def test_what_a_record_waited_for_and_how_long(tmp_path, topics):
    config = config_of(tmp_path)
    labels = ("0", "2", "3", "1", "4")
    topics["t.in"] = [
        record("t.in", n, b"K", at=1_000 * n, label=label) for n, label in enumerate(labels)
    ]
    topics["t.out"] = [
        record("t.out", n, b"K", label=str(n), sequence=str(n)) for n in range(len(labels))
    ]
    found = streams.channel(config, "p", b"K", Scope(1))
    assert found["waited"] == {"t.in/0@1": ("1", 2.0), "t.in/0@2": ("1", 1.0)}


def test_commands_records_without_a_label_and_dropped_ones_are_not_held(tmp_path, topics):
    more = {"unlabelled": "pass", "input_commands": ["skip"], "duplicates": "drop"}
    config = config_of(tmp_path, **more)
    sent = [{"label": "0"}, {}, {"op": "skip"}, {}, {"label": "0"}, {"label": "3"}]
    topics["t.in"] = [record("t.in", n, b"K", b"%d" % n, n, **each) for n, each in enumerate(sent)]
    topics["t.out"] = [
        record("t.out", at, b"K", b"%d" % n, n, sequence=str(at), **sent[n])
        for at, n in enumerate((0, 1, 3))
    ]
    found = streams.channel(config, "p", b"K", Scope(1))
    assert [each.fate for each, _ in found["arrivals"]] == [
        *("delivered", "delivered", "command", "delivered", "dropped", "held")
    ]
    assert lines(found["picture"]) == 3


def test_channels_and_labels_in_headers_of_their_own(tmp_path, topics):
    config = config_of(tmp_path, channel="header('c')", label="header('n')")
    sent = [{"c": "A", "n": "1"}, {"c": "B", "n": "0"}, {"c": "A", "n": "0"}, {"c": "A", "n": "5"}]
    topics["t.in"] = [record("t.in", n, b"A", **each) for n, each in enumerate(sent)]
    topics["t.out"] = [
        record("t.out", at, b"A", sequence=str(at), **sent[n]) for at, n in enumerate((2, 0))
    ]
    found = streams.channel(config, "p", b"A", Scope(1))
    assert [(each.label, each.fate) for each, _ in found["arrivals"]] == [
        *(("1", "delivered"), ("0", "delivered"), ("5", "held"))
    ]
    assert found["waited"] == {"t.in/0@0": ("0", 0.0)}


@pytest.mark.parametrize(
    ("channel", "is_readable", "count"), [("key", True, 2), ({"json": "$.c"}, False, 0)]
)
def test_labels_inside_values(tmp_path, topics, channel, is_readable, count):
    config = config_of(tmp_path, channel=channel, label={"json": "$.n"})
    values = [b'{"n": 1, "c": "K"}', b'{"n": 0, "c": "K"}']
    topics["t.in"] = [record("t.in", n, b"K", value, n) for n, value in enumerate(values)]
    topics["t.out"] = [record("t.out", 0, b"K", values[1], 1), record("t.out", 1, b"K", values[0])]
    found = streams.channel(config, "p", b"K", Scope(1))
    assert found["is_readable"] is is_readable
    assert [each.fate for each, _ in found["arrivals"]] == ["delivered"] * count


def pages(show):
    """All pages of a stream, the newest first, as their links lead: the numbers on each."""
    scope, seen = Scope(1), []
    while True:
        found = show(scope)
        if not found["deliveries"]:
            return seen
        seen.append([number for _, number in found["deliveries"]])
        places = [values.place_in(each) for each in found["older"]]
        until = {(topic, partition): offset for topic, partition, offset in places}
        scope = Scope(1, until, found.get("below"))


def test_a_group_and_a_subscriber_can_be_scrolled_back_to_their_beginnings(
    tmp_path, topics, monkeypatch
):
    """Each message on one page, though copies lie in two partitions that filled unevenly."""
    monkeypatch.setattr(streams, "LANE_ARRIVALS", 3)
    config = config_of(tmp_path, discipline="group", groups={"G": ["A", "B"]})
    topics["t.in"] = [record("t.in", n, b"s", b"%d" % n, n, group="G") for n in range(10)]

    def copy(number, offset, key, partition):
        said = {"group": "G", "sender": "s", "group_version": "0", "group_sequence": str(number)}
        value = b"%d" % number
        own = {"sequence": str(number), **said}
        return record("t.out", offset, key, value, number, partition, **own)

    topics["t.out"] = [copy(n, 5 * n, b"A", 0) for n in range(10)]
    topics["t.out"] += [copy(n, n, b"B", 1) for n in range(4, 10)]
    wanted = [["7", "8", "9"], ["4", "5", "6"], ["1", "2", "3"], ["0"]]
    assert pages(lambda scope: streams.group(config, "p", "G", "AB", scope)) == wanted
    assert pages(lambda scope: streams.subscriber(config, "p", b"A", scope)) == wanted
