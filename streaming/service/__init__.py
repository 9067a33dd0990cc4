"""The running service: pipelines, checkpoints, decisions, restarts, the clean stop, backups."""
