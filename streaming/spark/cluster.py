"""The cluster that Spark runs on: wait for its master and executors, and watch them.

On a local master there is nothing to do: driver and executors are one process.
"""

from __future__ import annotations

import contextlib
import re
import socket
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from streaming.config import Config
from streaming.errors import ConfigError, JobFailed
from streaming.logs import count
from streaming.spark.session_access import executor_cores, is_stopped
from streaming.stopping import Stopping

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*]"
ONE_MACHINE = {
    "spark.storage.blockManagerHeartbeatTimeoutMs": "36500d",
    "spark.shuffle.checksum.enabled": "false",
    "spark.shuffle.compress": "false",
    "spark.shuffle.sort.bypassMergeThreshold": "1",
    "spark.shuffle.spill.diskWriteBufferSize": str(128 * 2**10),
    "spark.broadcast.blockSize": "256k",
    "spark.broadcast.checksum": "false",
    "spark.broadcast.compress": "false",
}
"""If shuffled data does not cross a network, compressing it takes longer than the rest of its way.
All of it has a checksum (`streaming.arrow.ipc`). A task writes a file for each partition and then
merges them, unless Spark takes that for too many files. A batch broadcasts some 100 KB (its tasks,
Hadoop's properties); for each, Spark allocates a 4 MiB block by default, and a MiB to write a few
KB: a quarter of all memory that the JVM allocated in small batches.

The executor is the driver's own process, there as long as that. By default Spark takes it for lost
if its heartbeats are late, as after a pause of two minutes (a suspended machine, a long garbage
collection); it cannot register again then, and ends its JVM after 60 further heartbeats."""
STANDALONE = "spark://"
MASTER_SECONDS_MAX = 60
CONNECT_SECONDS_MAX = 3
SETTLE_SECONDS = 30
"""How long to wait for all the wanted cores; then work begins with those that are there."""
REMIND_SECONDS = 60
LOST_SECONDS_MAX = 120
"""How long to wait for executors of a standalone master when all were lost. A master that was
started again without `spark.deploy.recoveryMode` does not know the application: it ends its
executors, gives no others, and does not report that to the driver."""
POLL_SECONDS = 0.2
CROWDED = 4
"""State partitions per core above which a warning is logged."""

Say = Callable[[str], None]


def is_local_master(master: str) -> bool:
    """Return whether driver and executors are one process."""
    return re.match(r"local(\[|$)", master) is not None


def wait_for_master(master: str, stopping: Stopping, say: Say) -> bool:
    """Wait until a standalone master listens; return False if a stop comes first.

    Raises ConfigError if its address is not valid, JobFailed if nothing listens for a minute. Spark
    itself would try for a minute, and then end in the middle of its start.
    """
    if not master.startswith(STANDALONE):
        return True
    addresses = [_address(each, master) for each in master.removeprefix(STANDALONE).split(",")]
    deadline = time.monotonic() + MASTER_SECONDS_MAX
    was_said = False
    while not stopping.is_set():
        if any(map(_listens, addresses)):
            return True
        if time.monotonic() > deadline:
            raise JobFailed(
                f"No Spark master listens at {master}.",
                "Nothing was started.",
                'Start it, or correct [spark] "spark.master"; its log has its address.',
            )
        if not was_said:
            say(f"No Spark master listens at {master}. Waiting for it.")
        was_said = True
        stopping.wait(1)
    return False


def _address(text: str, master: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    try:
        socket.getaddrinfo(host, int(port))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{master} is not a Spark master's address: {error}.",
            "Nothing was started.",
            'Write [spark] "spark.master" = "spark://host:7077", as in the master\'s log.',
        ) from error
    return host, int(port)


def _listens(address: tuple[str, int]) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(address, CONNECT_SECONDS_MAX):
        return True
    return False


class Cluster:
    """The executors of a session, provided by ``master``."""

    def __init__(self, session: SparkSession, config: Config, say: Say) -> None:
        self.context: Any = session.sparkContext
        self.master: str = self.context.master
        self.local = is_local_master(self.master)
        self.say = say
        self.wanted = _wanted(config.spark)
        self._alone_since: float | None = None

    def cores(self) -> int:
        """Return the number of cores of the present executors."""
        return executor_cores(self.context)

    def misfits(self, partitions: Mapping[str, int], asked: int | None) -> list[str]:
        """See :func:`misfits`."""
        return misfits(self.context.defaultParallelism, partitions, asked)

    def wait_for_cores(self, stopping: Stopping) -> bool:
        """Wait for all the wanted cores, or after a while for some; False on a stop."""
        began = reminded = time.monotonic()
        was_said = self.local
        while not stopping.is_set():
            self.require_alive()
            cores = 0 if self.local else self.cores()
            waited = time.monotonic() - began
            if self.local or cores >= self.wanted or (cores and waited > SETTLE_SECONDS):
                if was_said and not self.local:
                    self.say(f"{cores} cores of {self.master} are there")
                return True
            if (waited > 2 and not was_said) or time.monotonic() - reminded > REMIND_SECONDS:
                self.say(self._waiting(cores))
                was_said, reminded = True, time.monotonic()
            stopping.wait(POLL_SECONDS)
        return False

    def watch(self) -> None:
        """Report when all executors are gone, and when some are back.

        Raises JobFailed if a standalone master gives none for some time.
        """
        if self.local:
            return
        self.require_alive()
        cores = self.cores()
        if cores:
            if self._alone_since is not None:
                self.say(f"{cores} cores of {self.master} are there again")
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = time.monotonic()
            self.say(self._waiting(0))
        elif self.master.startswith(STANDALONE):
            self._require_known(time.monotonic() - self._alone_since)

    def _require_known(self, alone_seconds: float) -> None:
        if alone_seconds > LOST_SECONDS_MAX:
            raise JobFailed(
                f"All executors are lost, and {self.master} gives no others.",
                "What was committed is kept; the next start repeats a batch that was running.",
                "Start again: a master that was restarted without spark.deploy.recoveryMode does "
                "not know of this service any more. If there are no free cores, the start waits.",
            )

    @property
    def deserted(self) -> bool:
        """Return whether no executor is left to finish a batch."""
        try:
            return not self.local and not self.cores()
        except Exception:  # noqa: BLE001  (the JVM is gone)
            return True

    def require_alive(self) -> None:
        """Raise JobFailed if the cluster ended the application."""
        if not self.local and is_stopped(self.context):
            raise JobFailed(
                f"{self.master} ended the application.",
                "What was committed is kept; the checkpoint is as the last batch left it.",
                "Executors that cannot start are the usual reason: their logs on the workers "
                "(work/app-…/stderr, or `kubectl logs`) say why.",
            )

    def _waiting(self, cores: int) -> str:
        return (
            f"Waiting for {count(self.wanted - cores, 'core')} of {self.master}: are that many "
            "free, with the memory that spark.executor.memory asks for?"
        )


def misfits(cores: int, partitions: Mapping[str, int], asked: int | None = None) -> list[str]:
    """Return warnings, one line each, if cores and state partitions (by pipeline) do not fit.

    Or if the partitions are not those that the configuration asks for.
    """
    remedy = "`sequencer rescale` changes that"
    cores_here = count(cores, "core")
    warnings = []
    if sum(partitions.values()) < cores:
        have = ", ".join(f"{name} {number}" for name, number in partitions.items())
        warnings.append(
            f"{cores} cores, but fewer state partitions ({have}): the others have nothing to step; "
            f"{remedy}"
        )
    warnings += [
        f"{name}: {number} state partitions for {cores_here}: each is a commit and a transaction "
        f"in every batch; {remedy}"
        for name, number in partitions.items()
        if number > CROWDED * cores
    ]
    warnings += [
        f"{name}: the configuration asks for {count(asked, 'state partition')}; the checkpoint has "
        f"{number}, which it keeps; {remedy}"
        for name, number in partitions.items()
        if asked and asked != number
    ]
    return warnings


def _wanted(spark: dict[str, str]) -> int:
    """Return the cores that the configuration asks for; 1 if that is all of them."""
    if cores := spark.get("spark.cores.max"):
        return int(cores)
    return int(spark.get("spark.executor.instances", 1)) * int(spark.get("spark.executor.cores", 1))
