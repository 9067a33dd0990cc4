"""Multicast by clocks or a counter: `core` one shard's step (`turn` what it collects), `asked` its
part in commands, `route` the shard of each peer, `peers` the shard's peers, `orders` what the two
protocols differ in, `rows` the records on their way, `codec` and `state` bytes, `describe` its
peers for people.
"""
