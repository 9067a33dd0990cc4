# ruff: noqa: ARG001  (all mutations take the same arguments)
"""Random changes that any discipline's judge must find.

Each takes a source of chance, the topics, the place of a delivery, the delivery, and its message's
other deliveries; it gives the names of faults of which one must be found, or None: not possible.
"""

from dataclasses import replace

from tests.streaming.verify.plants import at_place_of, insert, with_header


def prefixes(rng, records):
    """What has been written at some moment: the beginning of each key's records."""
    ends = {}
    for record in records:
        ends[record.topic, record.key] = ends.get((record.topic, record.key), 0) + 1
    left = {name: rng.choice([count, rng.randrange(count + 1)]) for name, count in ends.items()}
    out = []
    for record in records:
        left[record.topic, record.key] -= 1
        if left[record.topic, record.key] >= 0:
            out.append(record)
    return out


def cut_short(rng, m):
    """Leave of outputs, rejects and events what has been written at some moment."""
    m.outputs = prefixes(rng, m.outputs)
    m.rejects = prefixes(rng, m.rejects)
    m.events = prefixes(rng, m.events)


def mutate(rng, m, kinds, message, deliveries):
    """One random change to one of the deliveries: its kind, and the names of the faults.

    ``message``: what names a record's message. No names: the change is not possible here.
    """
    if not deliveries:
        return None, None
    at = rng.choice(deliveries)
    record = m.outputs[at]
    others = [r for n, r in enumerate(m.outputs) if message(r) == message(record) and n != at]
    kind = rng.choice(kinds)
    return kind, kind(rng, m, at, record, others)


def assert_found(names, verdict, what):
    """One of the faults is found, and each fault that is found says where."""
    assert names & verdict.counts.keys(), (what, names, verdict.faults[:3])
    assert all("@" in fault.witness for fault in verdict.faults), verdict.faults


def again(rng, m, at, record, others):
    insert(m.outputs, rng.choice([n for n in m.of_key(record.key) if n >= at]), record)
    return {"delivered-twice"}


def changed(rng, record, name, value):
    """Other bytes, another time, or another header; one of them has this name and value."""
    return rng.choice(
        [
            replace(record, value=(record.value or b"") + b"!"),
            replace(record, timestamp=record.timestamp + 1),
            with_header(record, "x", None),
            with_header(record, name, value),
            replace(record, headers=(("y", b""), *record.headers)),
        ]
    )


def repeat(rng, m, at, record, others):
    m.outputs.insert(rng.randrange(at, len(m.outputs)) + 1, record)
    return {"repeat"}


def reject(rng, m, at, record, others):
    if not m.rejects:
        return None
    at = rng.randrange(len(m.rejects))
    record, way = m.rejects[at], rng.randrange(4)
    if way == 0:
        del m.rejects[at]
        return {"unfinished"}
    if way == 1:
        m.rejects[at] = replace(record, value=b"?")
        return {"reject-altered"}
    if way == 2:
        m.rejects.append(replace(record, offset=10**6))
        return {"reject-repeat"}
    m.rejects[at] = with_header(record, "reject-reason", b"missing-label")
    return {"wrong-reason"}


def moved(rng, m, at, record, others):
    place = replace(record, partition=(record.partition + 1) % 3)
    m.outputs[at] = at_place_of(record, place)
    return {"wrong-partition"}


def lose_as_it_is(rng, m, at, record, others):
    key = record.key
    last = m.of_key(key)[-1] == at
    del m.outputs[at]
    return {"unfinished"} if last else {"hole"}


def other_sequence(rng, m, at, record, others):
    name, by = rng.choice([("sequence", 1000), ("incarnation", -1)])
    m.outputs[at] = with_header(record, name, b"%d" % (int(record.header(name)) + by))
    if name == "incarnation" and m.of_key(record.key)[0] == at:
        return None
    return {"hole", "disorder"}
