"""The jobs of `compare.py`: ours, other systems', and how each is started."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from harness import JOB, say

from streaming.disciplines.source import BATCH_RECORDS
from streaming.errors import SequencerError
from streaming.kafka.jars import java

PEERS = Path(__file__).with_name("peers")
JAVA_PROGRAMS = {"flink", "streams"}
JVM = ("-Xmx1g", "-XX:+UseParallelGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
ENDLESS = 10**12
"""So many records as no job will have delivered."""


class Job(NamedTuple):
    """One way to do it: how it is started, and what it guarantees."""

    words: tuple[str, ...]
    title: str
    guarantee: str
    state: str
    ordered: bool = True

    @property
    def lives(self):
        """Whether it goes on where there is nothing left to read."""
        return self.words[0] != "dictionaries"

    @property
    def commits(self):
        """Whether it commits at an interval that it is given."""
        return self.words[0] in JAVA_PROGRAMS


JOBS = {
    "copy": Job(("job", "copy"), "Spark copy", "at-least-once, no order", "none", ordered=False),
    "exactly-once": Job(
        ("service", "exactly-once"), "**ours**", "exactly-once", "RocksDB, checkpoint"
    ),
    "at-least-once": Job(
        ("service", "at-least-once"), "**ours**", "at-least-once", "RocksDB, checkpoint"
    ),
    "flink-rocksdb": Job(
        ("flink", "FlinkPeer", "rocksdb", "array"), "Flink", "exactly-once", "RocksDB, checkpoint"
    ),
    "flink-rocksdb-entries": Job(
        ("flink", "FlinkPeer", "rocksdb", "entries"),
        "Flink, an entry for each held message",
        "exactly-once",
        "RocksDB, checkpoint",
    ),
    "flink-heap": Job(
        ("flink", "FlinkPeer", "hashmap", "array"), "Flink", "exactly-once", "heap, checkpoint"
    ),
    "streams": Job(
        ("streams", "StreamsPeer"), "Kafka Streams", "exactly-once", "RocksDB, changelog"
    ),
    "dictionaries": Job(
        ("dictionaries",), "plain Python", "none: a crash loses what is held", "dictionaries"
    ),
}


def build():
    """Compile the Java programs; ends with a message where Java or Maven is missing."""
    without = "Nothing was measured. Without the two that need it: --only " + " ".join(
        name for name, job in JOBS.items() if not job.commits
    )
    try:
        java()
    except SequencerError as error:
        sys.exit(f"{error}\n{without}")
    maven = shutil.which("mvn")
    if maven is None:
        sys.exit(f"There is no mvn on the PATH: Flink and Kafka Streams need Maven.\n{without}")
    say("compiling the programs for Flink and Kafka Streams")
    command = [maven, "-q", "-B", "-f", str(PEERS / "pom.xml"), "package"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"Maven could not build bench/peers.\n{without}\n{done.stdout[-3000:]}")


def command(name, interval, places, count, folder):
    """How a job is started that ends with `count` records, or never (ENDLESS).

    `places`: the broker's address, the topic that is read, and the one that is written.
    """
    kind, *words = JOBS[name].words
    if kind == "service":
        file = configuration(words[0], places, folder)
        once = [] if count == ENDLESS else ["--once"]
        return [sys.executable, "-m", "streaming.cli", "run", *once, str(file)]
    if kind == "job":
        limit = str(min(BATCH_RECORDS, count // 8))
        return [sys.executable, str(JOB), *words, *places, "--batch", limit, "--until", str(count)]
    if kind == "dictionaries":
        return [sys.executable, str(PEERS / "dictionaries.py"), *places]
    target = PEERS / kind / "target"
    classes = os.pathsep.join((str(target / "classes"), str(target / "dependency" / "*")))
    program, *settings = words
    asked = (program, *places, str(count), folder, str(interval), *settings)
    return [java(), *JVM, "-cp", classes, *asked]


def configuration(delivery, places, folder):
    """A file for `sequencer run` as its README has it: nothing that need not be said."""
    bootstrap, topic, output = places
    file = Path(folder, "bench.toml")
    file.write_text(
        f'[service]\nname = "{output}"\ncheckpoint = "{folder}/checkpoints"\n'
        f'delivery = "{delivery}"\n[kafka]\nbootstrap_servers = "{bootstrap}"\n'
        f'[pipelines.bench]\ndiscipline = "channel"\ninput = ["{topic}"]\noutput = "{output}"\n'
        f'rejects = "{output}.rejects"\nevents = "{output}.events"\n'
    )
    return file
