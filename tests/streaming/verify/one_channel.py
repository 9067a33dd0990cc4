"""Topics of one channel, record by record."""

from dataclasses import replace

from sequencer.labels import LinearLabels
from streaming.verify.channel import ChannelSettings
from streaming.verify.records import Record
from tests.streaming.verify.places import PARTITIONS, partition_of

SETTINGS = ChannelSettings("p", LinearLabels(), 50, output_partitions=PARTITIONS)


def sent(offset, label, epoch=None, *, fin=False):
    """An input with this label; None: without one."""
    headers = (("label", b"%d" % label),) if label is not None else ()
    headers += (("epoch", b"%d" % epoch),) if epoch is not None else ()
    headers += (("fin", None),) if fin else ()
    return Record("in", 0, offset, 1, b"k", b"v%d" % offset, headers)


def delivered(*records):
    """The deliveries of these inputs."""
    place = partition_of(b"k")
    return [
        replace(
            each,
            topic="out",
            partition=place,
            offset=sequence,
            headers=(*each.headers, ("sequence", b"%d" % sequence), ("incarnation", b"9")),
        )
        for sequence, each in enumerate(records)
    ]


def rejected(record, reason, after=None):
    """The reject of an input; ``after``: the sequence of the delivery before it."""
    names = ("reason", "topic", "partition", "offset", "after")
    values = (reason.encode(), b"in", b"0", b"%d" % record.offset)
    values += (b"9/%d" % after,) if after is not None else ()
    added = tuple((f"reject-{name}", value) for name, value in zip(names, values, strict=False))
    return replace(record, topic="rejects", headers=record.headers + added)


def gap(first, stop, reason="timeout", epoch=0):
    """The event of labels that were given up."""
    what = {"event": "gap", "id": f"g:{epoch}:{first}", "channel": "k", "epoch": epoch}
    ends = {"incarnation": 9, "from": first, "to": stop, "count": stop - first}
    return {**what, **ends, "reason": reason}
