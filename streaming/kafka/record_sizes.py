"""Settings with which the topic alone decides what is too large, record by record.

librdkafka itself refuses records above 1,000,000 bytes, and fills a record batch up to there: a
topic that takes less would refuse the batch, with all of its records.
"""

BATCH_BYTES = {"batch.size": 65_536}
"""A larger record has a batch of its own."""
OF_ANY_SIZE = {"message.max.bytes": 1_000_000_000, **BATCH_BYTES}
