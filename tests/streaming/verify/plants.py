"""Small changes to the records of topics, as a broken service could have made them."""

import json
from dataclasses import dataclass, replace
from itertools import pairwise

from streaming.verify.accounts import Material
from tests.streaming.verify.worlds import material_for


@dataclass
class Lists:
    """The topics of a pipeline as lists to be changed."""

    outputs: list
    rejects: list
    events: list
    commands: list
    inputs: list

    @classmethod
    def of(cls, material):
        return cls(*(list(getattr(material, name)) for name in cls.__dataclass_fields__))

    def material(self):
        return Material(self.outputs, self.rejects, self.events, self.commands, self.inputs)

    def of_key(self, key):
        """Where the deliveries of a key stand."""
        return [at for at, record in enumerate(self.outputs) if record.key == key]


def with_header(record, name, value):
    """The record with another last header of that name."""
    headers = list(record.headers)
    at = max(n for n, (each, _) in enumerate(headers) if each == name)
    headers[at] = (name, value)
    return replace(record, headers=tuple(headers))


def without_header(record, name):
    return replace(record, headers=tuple(each for each in record.headers if each[0] != name))


def at_place_of(record, other):
    """A delivery in the place, and with the `sequence`, of another."""
    moved = replace(record, topic=other.topic, partition=other.partition, offset=other.offset)
    return replace(moved, headers=(*record.headers[:-2], *other.headers[-2:]))


def swap(records, one, two):
    """Two deliveries of one key change places."""
    first, second = records[one], records[two]
    records[one], records[two] = at_place_of(second, first), at_place_of(first, second)


def drop(records, at):
    """A delivery is left out, and `sequence` goes on without a hole."""
    gone = records[at]
    later = [n for n in range(at, len(records)) if records[n].key == gone.key]
    for before, now in pairwise(later):
        records[before] = at_place_of(records[now], records[before])
    del records[later[-1]]


def insert(records, at, record):
    """A delivery is put before another of its key, and `sequence` goes on behind it."""
    key = record.key
    later = [n for n in range(at, len(records)) if records[n].key == key]
    moved = [records[n] for n in later]
    last = moved[-1]
    sequence = int(last.headers[-2][1]) + 1
    end = with_header(replace(last, offset=last.offset + 1), last.headers[-2][0], b"%d" % sequence)
    places = [*moved, end]
    for n, (each, place) in zip(
        later, zip([record, *moved[:-1]], places, strict=False), strict=True
    ):
        records[n] = at_place_of(each, place)
    records.insert(later[-1] + 1, at_place_of(moved[-1], end))


def append(records, record, key):
    """A delivery behind the last one of a key; the key must have one."""
    last = next(each for each in reversed(records) if each.key == key)
    sequence = int(last.headers[-2][1]) + 1
    place = with_header(
        replace(last, offset=last.offset + 1), last.headers[-2][0], b"%d" % sequence
    )
    records.insert(records.index(last) + 1, at_place_of(replace(record, key=key), place))


def reject_lost(m):
    m.rejects.pop()


def reject_altered(m):
    m.rejects[0] = replace(m.rejects[0], value=b"other")


def reject_doubled(m):
    m.rejects.append(replace(m.rejects[0], offset=99))


def reason(old, new):
    def plant(m):
        at = next(n for n, r in enumerate(m.rejects) if r.header("reject-reason") == old)
        m.rejects[at] = with_header(m.rejects[at], "reject-reason", new)

    return plant


def event_at(m, kind, nth=0):
    """The n-th event of a kind, by batch time."""
    found = [(json.loads(r.value)["at"], n) for n, r in enumerate(m.events) if kind in str(r.value)]
    return sorted(found)[nth][1]


def edit(m, at, **changes):
    """Other fields in an event; those that are None are left out."""
    fields = json.loads(m.events[at].value) | changes
    kept = {name: value for name, value in fields.items() if value is not None}
    m.events[at] = replace(m.events[at], value=json.dumps(kept).encode())


def no_answer(m):
    del m.events[event_at(m, "command-done")]


def done_instead(m):
    at = event_at(m, "command-refused")
    m.events[at] = replace(m.events[at], value=m.events[at].value.replace(b"refused", b"done"))


def require_found_in(world, verdict_on, plant, name):
    """A fault planted in a world's topics is found under this name, with a witness of where."""
    m = Lists.of(material_for(world))
    plant(m)
    verdict = verdict_on(m)
    assert name in verdict.counts, verdict.faults
    witness = next(fault.witness for fault in verdict.faults if fault.name == name)
    assert "@" in witness, witness
