"""Random inputs of a channel pipeline, and what the naive model makes of them, as records."""

import random
from dataclasses import replace

from streaming.verify.channel import ChannelSettings, Material
from streaming.verify.records import Record
from tests.sequencer.channels.model import NaiveChannels
from tests.streaming.verify.places import PARTITIONS, partition_of


def rejected(inputs, model, *, drop):
    """The records of the rejects' topic; of what was refused, what its topic takes."""
    names = zip(model.gaps, model.lives_of_gaps, strict=True)
    ids = {
        (gap[0], born, *gap[1:3]): b"g%d:%d" % (n, gap[2]) for n, (gap, born) in enumerate(names)
    }
    rejects = []
    for n, (row, reason) in enumerate(model.rejects):
        if drop and reason == "duplicate":
            continue
        added = (
            ("reject-reason", reason.encode()),
            ("reject-topic", b"in"),
            ("reject-partition", b"0"),
            ("reject-offset", b"%d" % row),
        )
        own, (after, gap) = inputs[row], model.places[row]
        if after is not None:
            added = (*added, ("reject-after", b"%d/%d" % after))
        if gap is not None:
            added = (*added, ("reject-gap", ids[gap]))
        if reason == "too-large":
            added = (*added, ("reject-detail", b"no; without its value (3 bytes), as: no"))
            own = replace(own, value=None)
        elif reason == "refused":
            added = (*added, ("reject-detail", b"no; without all of it (key), as: no"))
            own = replace(own, key=None, value=None, headers=())
        rejects.append(replace(own, topic="rejects", offset=n, headers=own.headers + added))
    return rejects


def events_of(model, labels):
    """The events of gaps and starts."""
    born = {key: at for key, _, _, at in model.out}
    gaps = [
        {
            "event": "gap",
            "id": f"g{n}:{first}",
            "channel": key.decode(),
            "epoch": epoch,
            "incarnation": born.get(key, 0),
            "from": labels.at(first),
            "to": labels.at(stop),
            "count": stop - first,
            "reason": why,
        }
        for n, (key, epoch, first, stop, _, why) in enumerate(model.gaps)
    ]
    return gaps + [
        {
            "event": "started",
            "id": f"s{n}",
            "channel": other[1].decode(),
            "epoch": other[2],
            "incarnation": born.get(other[1], 0),
            "label": labels.at(other[3]),
        }
        for n, other in enumerate(model.others)
        if other[0] == "started"
    ]


def story(
    seed,
    labels,
    *,
    window=50,
    held_max=20,
    gap_after=30,
    drop=False,
    refuse=False,
    passes=False,
    settle=None,
):
    """A random input and what the naive model makes of it, as records of the topics."""
    rng = random.Random(seed)
    cycle = labels.cycle
    model = NaiveChannels(
        cycle=cycle,
        to_place=lambda text: int(text) if text.isdigit() else None,
        window=window,
        held_max=held_max,
        full="reject",
        gap_after=gap_after,
        retire_after=10**9,
    )
    model.passes, model.settle = passes, settle
    inputs = []
    for n in range(400):
        key = rng.choice([b"a", b"b", b"c", None] if rng.random() < 0.1 else [b"a", b"b", b"c"])
        position = max(0, n // 3 + rng.randrange(-6, 7)) + (0 if settle is None else 40)
        label = str(position % cycle if cycle else position).encode()
        headers = [("x", b"1"), ("label", rng.choice([b"bad", label]) if n % 40 == 0 else label)]
        if n > 200 and rng.random() < 0.3 and key == b"b":
            headers.append(("epoch", b"1"))
        if n == 390:
            headers.append(("fin", b""))
        if passes and n % 7 == 0:
            headers = [each for each in headers if each[0] != "label"]
        inputs.append(Record("in", 0, n, 1000 + n, key, b"v%d" % n, tuple(headers)))
    if refuse:
        model.refused = {n: "too-large" if n % 2 else "refused" for n in range(0, 380, 13)}
    for record in inputs:
        fin = record.has_header("fin")
        epoch = record.header("epoch")
        model.take(record.offset, (record.offset, record.key, record.header("label"), epoch, fin))
        if record.offset % 10 == 0:
            model.end_of_batch(record.offset)
    outputs, ends = [], [0] * PARTITIONS
    for key, sequence, row, born in model.out:
        place = partition_of(key)
        added = (("sequence", b"%d" % sequence), ("incarnation", b"%d" % born))
        source = inputs[row]
        outputs.append(
            replace(
                source,
                topic="out",
                partition=place,
                offset=ends[place],
                headers=source.headers + added,
            )
        )
        ends[place] += 1
    outputs.sort(key=lambda r: (r.partition, r.offset))
    rejects = rejected(inputs, model, drop=drop)
    events = events_of(model, labels)
    settings = ChannelSettings(
        "p",
        labels,
        window,
        drop_duplicates=drop,
        output_partitions=PARTITIONS,
        held_max=held_max,
        pass_unlabelled=passes,
        first_seen=settle is not None,
    )
    return settings, Material(inputs, outputs, rejects, events)
