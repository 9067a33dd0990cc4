"""Files of a broker's log: bytes of old formats put into them, and what Kafka's own tool says of them."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any

from kafka.record.legacy_records import LegacyRecordBatchBuilder

from streaming.kafka.embedded import EmbeddedBroker
from streaming.kafka.jars import java, java_environment
from tests.kafka_helpers import Record
from tests.originals.brokers import jars_of

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3}
OLD_CODECS = ("none", "gzip", "lz4")
"""What kafka-python writes of formats 0 and 1 without a package for Snappy; in format 0 no LZ4."""
APPENDED = 0x08
TOOL_VERSION = "4.2.2"
TOOL_SECONDS_MAX = 120
BATCH = re.compile(r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*? size: (\d+) magic: (\d)")
RECORD = re.compile(r"^\| offset: (\d+) .*?keySize: (-?\d+) valueSize: (-?\d+) ")


def message_set(
    magic: int, codec: str, first: int, records: list[Record], appended_ms: int = -1
) -> bytes:
    """Return messages of format 0 or 1 from an offset on, as brokers before 0.11 kept them.

    ``appended_ms``: the broker's own timestamp of a compressed message (format 1).
    """
    builder = LegacyRecordBatchBuilder(magic, CODECS[codec], 1 << 20)
    inner = first if codec == "none" or magic == 0 else 0
    for number, each in enumerate(records):
        builder.append(inner + number, each.timestamp, each.key, each.value)
    data = bytearray(builder.build())
    if codec != "none":  # the outer message has the offset of the last inner one
        struct.pack_into(">q", data, 0, first + len(records) - 1)
        if appended_ms >= 0:
            data[17] |= APPENDED
            struct.pack_into(">q", data, 18, appended_ms)
            struct.pack_into(">I", data, 12, zlib.crc32(bytes(data[16:])))
    return bytes(data)


def segment(broker: EmbeddedBroker, topic: str, partition: int = 0) -> Path:
    """Return the first file of a partition's log."""
    return broker.data / "logs" / f"{topic}-{partition}" / f"{0:020}.log"


def put_in_front(broker: EmbeddedBroker, topic: str, data: bytes) -> None:
    """Have an empty partition begin with these bytes; the broker stands still meanwhile.

    A broker that was not stopped cleanly reads its logs anew.
    """
    broker.stop()
    path = segment(broker, topic)
    assert not path.read_bytes()
    path.write_bytes(data)
    (broker.data / "logs" / ".kafka_cleanshutdown").unlink(missing_ok=True)
    broker.start()


def dumped(path: Path) -> list[dict[str, Any]]:
    """Return what `DumpLogSegments` says of a file: its batches, each with its records.

    Each batch is valid, or it is an error. From 4.3 on the tool is in a jar that brokers do not need.
    """
    classpath = os.pathsep.join(map(str, jars_of(TOOL_VERSION)))
    command = [java(), "-cp", classpath, "kafka.tools.DumpLogSegments"]
    command += ["--files", str(path), "--print-data-log"]
    said = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=java_environment(),
        timeout=TOOL_SECONDS_MAX,
        check=True,
    ).stdout
    batches: list[dict[str, Any]] = []
    for line in said.splitlines():
        if found := BATCH.search(line):
            assert "isvalid: true" in line, line
            first, last, count, size, magic = map(int, found.groups())
            batches.append(
                {"first": first, "last": last, "count": count, "size": size, "magic": magic}
            )
            batches[-1]["records"] = []
        elif found := RECORD.search(line):
            batches[-1]["records"].append(tuple(map(int, found.groups())))
    return batches
