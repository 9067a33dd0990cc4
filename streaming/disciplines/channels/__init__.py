"""Discipline `channel` as a Spark operator: `operator` the step of a shard, `codec` its state."""
