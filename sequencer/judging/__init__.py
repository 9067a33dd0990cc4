"""Judging histories by their deliveries alone.

`invariants` what must hold, each with its smallest witness, `cycles` where no single order of all
messages can exist.
"""
