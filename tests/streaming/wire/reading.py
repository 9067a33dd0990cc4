"""Record batches read by kafka-python, which knows nothing of the encoder."""

from kafka.record import MemoryRecords


def read(encoded):
    """What kafka-python finds in one batch, and the batch."""
    memory = MemoryRecords(encoded)
    batch = memory.next_batch()
    assert batch.validate_crc()
    assert not memory.has_next()
    return [(r.timestamp, r.key, r.value, r.headers) for r in batch], batch
