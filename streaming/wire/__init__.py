"""Kafka's wire: connections, requests, and the record batch format, written and read.

All use of kafka-python below its public names (`kafka`, `kafka.errors`) is here: a rule of
`tests/test_arrows.py` keeps it so, and `tests/streaming/wire/test_internals.py` asserts each such
name, so that an upgrade says which one has moved.

- connections: `brokers`, `connections` over `sockets`, `bootstrap` (the addresses where they
  begin, `known` brokers among them), `leaders` (one request at a time for each partition),
  `topology`, `kerberos`, `tokens`;
- requests: `admin`, `bounds` (first and last offsets), `fetch`, `produce`, `transactions`;
- record batches written: `record_batch`, `contents`, `compression`, `encoded`, `blocks` (large
  values, compressed by themselves), `splitting` (one that a broker refused, taken apart);
- record batches read: `fetched`, `record_columns`, `decompression`, `old_messages` (formats 0, 1).
"""
