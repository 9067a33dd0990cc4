"""Groups in the order of the micro-batch: `core` one shard's step, `codec` its state as bytes,
`describe` the same for people.
"""
