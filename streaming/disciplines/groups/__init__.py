"""Discipline `group` as a Spark operator.

`operator` one shard's step, `commands` changes of membership, `views` stamps as subscribers see
them, `codec` messages on their way and a shard's state as bytes.
"""
