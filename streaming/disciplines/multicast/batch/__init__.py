"""Multicast in the order of the micro-batch: `core` one shard's step, `slices` the deliveries that
it writes, `describe` its peers for people, `reshard` peers moved to other shards.
"""
