"""What sources of the tests read, and what they are given to read."""

import json
from functools import partial

from streaming.arrow.pack import PACKED
from streaming.arrow.schemas import RECORD
from streaming.disciplines.source import Limits, Reading
from streaming.source.reader import rows_of_share
from tests.kafka_helpers import Record, produce


def reading_of(topic, limits=None, tasks=1, keys=()):
    """All of a topic, record by record."""
    return Reading({topic: 0}, RECORD, lambda table: table, PACKED, tasks, limits or Limits(), keys)


def as_logged(position):
    return json.loads(json.dumps(position))


def values(source, start, end):
    """The values of what a batch reads."""
    shares = source.rows(start, end).shares
    read = partial(rows_of_share, inputs=source.inputs, schema=RECORD, making=lambda table: table)
    tables = [table for share in shares for table in read(share)]
    return [value for table in tables for value in table["value"].to_pylist()]


def send(broker, topic, name, count, partition=0):
    records = [Record(b"k", b"%s%d" % (name, n), partition=partition) for n in range(count)]
    produce(broker.bootstrap, topic, records)
    return [record.value for record in records]
