"""Faults against a running service, by a seed: `make chaos`.

`traffic`: what users send meanwhile, and when deliveries come. `fault`: what a fault is.
`processes`, `network`, `brokers`: the faults; `catalogue`: all of them by name. `place`: where they happen.
`run`: one after the other, judged from the topics at the end. `table`: the page's table from what runs
measured.
"""
