"""Judging histories by their deliveries alone: invariants with witnesses, cycles."""
