"""Recorded input through a pipeline's own step, without Spark; settings that follow from it."""
