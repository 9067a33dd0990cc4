"""Multicast by bus1's clocks or kdbus' counter: one order that every receiver agrees with.

- What is said: `words`, and the steps of each protocol, `clock_messages` and `counter_messages`.
- Who answers: a `party`, `clock_peer` and `counter_peer`, with their queues, `clock_queue` and
  `counter_queue`, and what they keep of `nodes` (destinations that a peer owns) and handles.
- Who asks: a `transaction`, by `clock_transaction` or `counter_transaction`; `sender_line`, several
  messages of one sender on their way.
- All of it in one process: `bus`; a part of it, exchanging messages with the others: `shard`.
"""
