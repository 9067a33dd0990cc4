"""Groups on a network of sequencing nodes: `core` one shard's step, `codec` messages on their
way and a shard's state as bytes, `stamps` as subscribers see them, `describe` for people.
"""
