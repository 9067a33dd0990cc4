"""Spark: its process, its session, its executors, and what has no public name in it.

All use of private names of PySpark, Spark and the JVM is here: a rule of `tests/test_arrows.py`
keeps it so, and `tests/spark/test_internals.py` asserts each of them, so that an upgrade says which
one has moved.

- the driver's process: `jvm` (started early), `class_archive` (what makes it start quickly),
  `scratch` (temporary files), `session` (settings, start and end), `processes`;
- Python workers: `worker_entry` and `worker_daemon` (PySpark's daemon, changed), `fork_server`
  (imports once for all of them), `stream_end` (the end of a whole input, and of one that was cut);
- executors on other hosts: `cluster` (waited for), `preflight` (checked), `worker_archive` (what
  they need, packed);
- queries: `stream` (a source that the driver's Python is), `queries` (run and stopped),
  `session_access` (state read back, Hadoop's files), `failures` (why one stopped);
- checkpoints: `spark_files` (Spark's two logs, read and written).
"""
