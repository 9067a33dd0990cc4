"""Ordering protocols: pure Python, no Spark, no Kafka, no clock, no I/O."""
