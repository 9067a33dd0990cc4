"""The running service: session, queries, checkpoints, restarts, the clean stop."""
