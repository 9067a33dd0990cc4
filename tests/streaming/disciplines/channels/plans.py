"""A plan of a channel pipeline, with short names of topics, and packs as its ingress makes them."""

import pyarrow as pa

from streaming.arrow.ipc import to_body
from streaming.disciplines.channels.plan import ChannelPlan
from streaming.disciplines.channels.records import arrival_schema, labelled, record_schema
from streaming.disciplines.channels.sql import header_name


def plan(rules):
    names = ("out", "rejects", "events", "wanted", "commands")
    roles = dict(zip(("output", "rejects", "events", "wanted", "commands"), names, strict=True))
    return ChannelPlan(
        service="s",
        pipeline="p",
        inputs=("in",),
        partitions=dict.fromkeys(names[:4], 3),
        rules=rules,
        **roles,
    )


def pack(records, p):
    """One pack with all the records; none of none."""
    return pack_table(pa.Table.from_pylist(records, schema=record_schema(p)), p)


def pack_table(table, p):
    """The same of a table."""
    table = labelled(table, arrival_schema(p), header_name(p.label)).combine_chunks()
    return [to_body(batch) for batch in table.to_batches()]
