"""The whole service on simulated machines, judged from its topics; everything follows from a seed.

`world` has the clock and the processes, `network` the connections, `kafka` the brokers, `spark`
what Spark does for a query, `history` what users send and which faults come, `judge` what must
hold, `planted` faults in the service itself that must be found. Everything above the sockets is
the code that is shipped. `python -m tests.simulated --help` runs seeds.
"""
