"""Names of headers that are not UTF-8: kafka-python reads them as the service does."""

import pytest
from kafka.errors import CorruptRecordError
from kafka.record.default_records import DefaultRecordBatch

from streaming.wire.header_names import read_all_names
from tests.streaming.wire.batches import batch, read, with_checksum

RECORDS = [
    {"timestamp": 5, "key": b"k", "value": b"v", "headers": [("other", b"1"), ("name", b"\xff")]},
    {"timestamp": 6, "key": None, "value": None, "headers": [("name", None)]},
]


@pytest.mark.parametrize("name", [b"na\xffe", b"\xf0\x9f\x98a", b"\xc3\x28\xa0\xa1", b"a\x00\x80b"])
def test_a_name_that_is_no_text_is_read_as_the_service_reads_it(name):
    data = with_checksum(batch(RECORDS, 7).replace(b"name", name))
    read_all_names()
    found = [(each.offset, each.headers) for each in DefaultRecordBatch(data)]
    ours = [
        (row["offset"], [(each["key"], each["value"]) for each in row["headers"]])
        for row in read(data)
    ]
    assert found == ours
    assert "\ufffd" in found[1][1][0][0]


def test_damage_stays_damage():
    read_all_names()
    data = bytearray(batch(RECORDS, 7))
    at = data.index(b"name") - 1
    data[at] = 126  # a name that goes on behind the record's end
    with pytest.raises(CorruptRecordError):
        list(DefaultRecordBatch(with_checksum(bytes(data))))


def test_kafka_python_keeps_the_batch_where_names_are_read_from():
    assert isinstance(DefaultRecordBatch(batch(RECORDS, 7))._buffer, bytearray)
