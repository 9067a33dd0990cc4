"""Discipline `multicast` as a Spark operator.

`operator` one shard's step (`batch` what it collects), `records` what senders wrote and peers read,
`route` who lives where, `nodes` nodes by command, `peers` the shard's peers, `rows` the records on
their way, `events` what users are told, `codec` and `state` bytes.
"""
