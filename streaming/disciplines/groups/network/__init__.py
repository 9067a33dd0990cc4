"""Groups on a network of sequencing nodes: `core` one shard's step, `route` who lives where,
`notices` changes in subscribers' streams, `codec` messages on their way and a shard's state as
bytes, `stamps` as subscribers see them, `describe` for people.
"""
