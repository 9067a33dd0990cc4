"""What is remembered of a key is bounded, however many groups there have been."""

from streaming.clients import lines
from streaming.clients.deliveries import GroupDelivery
from streaming.clients.lines import GroupLine

PLACE = {"topic": "t", "partition": 0, "timestamp": 5, "key": b"A", "value": b"x", "headers": ()}


def message(group, other, version, number, *, overlap):
    return GroupDelivery(
        **PLACE,
        offset=0,
        sequence=0,
        incarnation=5,
        sender=b"s",
        group=group,
        group_sequence=number,
        group_version=version,
        stamps=((group, other, overlap),),
    )


def test_groups_that_come_and_go_are_not_remembered_for_ever(monkeypatch):
    monkeypatch.setattr(lines, "REMEMBERED_MAX", 100)
    line, kept = GroupLine(), ("kept", "always")
    for number in range(2_000):
        one = message(f"room-{number}", "kept", 0, 0, overlap=0)
        found = [*line.follow(one), *line.follow(message(*kept, 0, number, overlap=number))]
        assert not found
        assert max(len(line.groups), len(line.overlaps), len(line.doubts)) <= 101
    assert not [*line.follow(message("room-0", "kept", 0, 0, overlap=0))], "which it has forgotten"
    (what,) = line.follow(message(*kept, 0, 7, overlap=2_000))
    assert what == "message 7 of version 0 of kept comes after message 1999 of version 0"
