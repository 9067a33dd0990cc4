"""Faults of processes against a running service, by a seed: `make chaos`.

`traffic`: what users send meanwhile, and when deliveries come. `faults`: what is killed or paused.
`run`: one after the other, judged from the topics at the end; a table of what came of it.
"""
