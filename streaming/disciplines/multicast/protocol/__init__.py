"""Multicast by clocks or a counter: `core` one shard's step (`turn` what it collects), its
part in commands is `node_commands`, `route` the shard of each peer, `peers` the shard's peers,
`orders` what the two protocols differ in, `kept_records` the records in flight, `codec` and `state`
bytes, `describe` its peers for people.
"""
