"""One job of the benchmark in a process of its own: a stateless copy, or one of the pipelines.

Prints one JSON line: the batches (rows, ms, phases, records done so far, records written so far, ms
of the clock at the start) in order; done are for channels the mean of records read and written,
else the records written. `--seconds` runs so long (for latency); without it the job stops when it
has done `--until` records. `--linger` is the producer's of the copy, in ms. With `--groups`
(JSON) it is the discipline `group`, and the copy writes each message as often as its group has
members; with `--order` it is `multicast`, and the copy writes each message as often as its header
`to` has names.
"""

import argparse
import json
import os
import shutil
import tempfile
import time
from dataclasses import replace
from datetime import datetime
from itertools import accumulate, chain
from pathlib import Path

from pyspark.sql import functions

from sequencer.channels import Rules
from sequencer.labels import LinearLabels
from streaming.config import parse_config
from streaming.config.tables import Service
from streaming.disciplines.channels.plan import ChannelPlan
from streaming.disciplines.discipline import Pace
from streaming.disciplines.groups.batch.codec import encode_first
from streaming.disciplines.groups.network.route import first_ingress
from streaming.disciplines.groups.plan import BatchPlan, NetworkPlan
from streaming.disciplines.multicast.plan import BatchMulticastPlan, MulticastPlan
from streaming.disciplines.source import BATCH_RECORDS
from streaming.kafka.jars import fetched
from streaming.service.checkpoint import Checkpoint
from streaming.service.offsets import read_in
from streaming.service.progress import Progress
from streaming.service.query import Carrier, build
from streaming.service.speed import Speed
from streaming.source import source_of
from streaming.spark.queries import start
from streaming.spark.scratch import large_rows
from streaming.spark.session import spark_session, start_jvm
from streaming.spark.settings import WELL_COMPILED

STOCK = {
    "spark.python.unix.domain.socket.enabled": "false",
    "spark.python.daemon.module": "pyspark.daemon",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
    ),
}
"""The copy runs as Spark comes, without what the service sets."""
BEST = {
    "kafka.linger.ms": "20",
    "kafka.compression.type": "lz4",
    "kafka.batch.size": str(256 * 1024),
    "kafka.max.request.size": str(4 * 2**20),
}
"""How Spark's Kafka sink writes fastest; with Kafka's defaults it is three times slower."""
CONNECTOR = Path(__file__).with_name("ivy-connector.xml")
BOTH_COMPILERS = {
    "spark.driver.extraJavaOptions": " ".join(("-XX:TieredStopAtLevel=4", *WELL_COMPILED))
}
"""For whoever makes rows of records in the JVM: faster than with Java's own thresholds, and half
as fast again as with the first compiler alone."""
SESSION = {"service": {"name": "bench"}, "pipelines": {"p": {"discipline": "channel"}}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["copy", "at-least-once", "exactly-once"])
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("output")
    parser.add_argument("--batch", type=int, help="records; else as the service does by itself")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--state-partitions", type=int, default=2)
    parser.add_argument("--shards", type=int, default=2, help="of channels; as by default")
    parser.add_argument("--until", type=int, default=0, help="stop after so many records written")
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--linger", type=int, default=20)
    parser.add_argument("--driver-memory", default="4g")
    parser.add_argument("--spark", type=json.loads, default={}, help="more properties (JSON)")
    parser.add_argument("--groups", type=json.loads, default={})
    parser.add_argument("--sequencing", choices=["batch", "network"], default="batch")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--no-stamps", dest="stamps", action="store_false")
    parser.add_argument("--order", choices=["", "batch", "clock", "counter"], default="")
    given = parser.parse_args()
    tables = {
        **SESSION,
        "kafka": {"bootstrap_servers": given.bootstrap},
        "spark": {
            "spark.master": "local[2]",
            "spark.driver.memory": given.driver_memory,
            "spark.sql.streaming.numRecentProgressUpdates": "1000",
            **({**STOCK, **BOTH_COMPILERS, **connector()} if given.kind == "copy" else {}),
            **given.spark,
        },
    }
    folder = tempfile.mkdtemp(prefix="bench-")
    try:
        config = parse_config(tables, {}, "bench")
        with spark_session(config, start_jvm(config, workers=True)) as session:
            job = Copy(session, given) if given.kind == "copy" else Ordered(session, given)
            query = job.start(folder)
            if given.seconds:
                time.sleep(given.seconds)
            else:
                wait_for(job, query, given.until)
            query.stop()
            told = [
                (
                    read_in(p),
                    p["durationMs"]["triggerExecution"],
                    p["durationMs"],
                    done,
                    written,
                    began(p),
                )
                for p, (done, written) in zip(busy(query), job.totals, strict=False)
            ]
        print(json.dumps(told))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def connector():
    """Spark's own way to Kafka, which the service does not have."""
    jars = fetched("connector", CONNECTOR)
    return {"spark.driver.extraClassPath": os.pathsep.join(map(str, jars))}


def busy(query):
    """Spark's reports on the batches that had rows."""
    return [each for each in query.recentProgress if read_in(each)]


def began(progress):
    return datetime.fromisoformat(progress["timestamp"]).timestamp() * 1000


def wait_for(job, query, count, limit_s=1800):
    """Wait until the job has done so many records."""
    deadline = time.monotonic() + limit_s
    while (job.totals or [(0, 0)])[-1][0] < count:
        if not query.isActive or time.monotonic() > deadline:
            raise SystemExit(f"the query did not finish: {job.failure or query.exception()}")
        time.sleep(0.2)


class Copy:
    """Kafka to Kafka without state, by Spark alone."""

    def __init__(self, session, given):
        self.session, self.given = session, given
        self.query = self.failure = None

    @property
    def totals(self):
        """Records done and written after each batch, as far as Spark says."""
        written = accumulate(max(p["sink"]["numOutputRows"], 0) for p in busy(self.query))
        return [(each, each) for each in written]

    def start(self, folder):
        source = (
            self.session.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.given.bootstrap)
            .option("maxOffsetsPerTrigger", self.given.batch or BATCH_RECORDS)
            .option("subscribe", self.given.topic)
            .option("includeHeaders", "true")
            .option("startingOffsets", "earliest")
            .load()
        )
        rows = source.select("key", "value", "headers")
        if self.given.groups or self.given.order:
            copies = functions.sequence(functions.lit(1), self.copies())
            rows = rows.withColumn("copy", functions.explode(copies)).drop("copy")
        self.query = (
            rows.writeStream.format("kafka")
            .option("kafka.bootstrap.servers", self.given.bootstrap)
            .option("topic", self.given.output)
            .options(**{**BEST, "kafka.linger.ms": str(self.given.linger)})
            .option("checkpointLocation", folder)
            .trigger(processingTime="0 milliseconds")
            .start()
        )
        return self.query

    def copies(self):
        """How often a message is written."""
        header = functions.col("headers")[0]["value"].cast("string")
        if self.given.order:
            return functions.size(functions.split(header, ","))
        sizes = chain.from_iterable((name, len(each)) for name, each in self.given.groups.items())
        return functions.create_map(*map(functions.lit, sizes))[header]


class Ordered:
    """A pipeline of the service."""

    def __init__(self, session, given):
        self.session, self.given = session, given
        self.totals = []

    def start(self, folder):
        rows = large_rows(self.session, "bench", sees_rows=False)
        plan = replace(self.plan(), folder=folder, sync=True, compression="lz4", large_rows=rows)
        partitions = str(self.given.state_partitions)
        self.session.conf.set("spark.sql.shuffle.partitions", partitions)
        progress = Progress()
        checkpoint = Checkpoint(*folder.rsplit("/", 1), synced=True)
        self.carrier = carrier = Carrier(plan, progress, checkpoint, self.note)
        given = self.given
        limits = Speed(Pace()).limits(Service(batch_records_max=given.batch), progress)
        source = source_of(self.session, plan, limits)
        frame = build(source, plan)
        query = start(frame, plan.pipeline, folder, carrier)
        carrier.begin(str(query.id))
        return query

    @property
    def failure(self):
        """What stopped a batch."""
        return self.carrier.failure

    def note(self, progress):
        totals = progress.totals()
        exchanges = self.given.groups or self.given.order
        done = totals.delivered if exchanges else (totals.seen + totals.delivered) / 2
        self.totals.append((done, totals.delivered))

    def plan(self):
        given = self.given
        names = [given.output, *(f"{given.output}.{role}" for role in ROLES)]
        output, rejects, events, commands, transit = names
        common = {
            "service": given.output,
            "pipeline": "p",
            "inputs": (given.topic,),
            "output": output,
            "rejects": rejects,
            "events": events,
            "partitions": dict.fromkeys(names, given.partitions),
            "delivery": given.kind,
            "state_partitions": given.state_partitions,
            "producer": {"bootstrap.servers": given.bootstrap},
        }
        topics = {"commands": commands, "transit": transit}
        if given.order == "batch":
            return BatchMulticastPlan(**common, commands=commands, shards=2)
        if given.order:
            return MulticastPlan(**common, **topics, shards=2, order=given.order)
        if not given.groups:
            rules, shards = Rules(LinearLabels()), max(given.shards, given.state_partitions)
            return ChannelPlan(**common, shards=shards, commands=commands, rules=rules)
        groups = {name: tuple(members) for name, members in given.groups.items()}
        if given.sequencing == "batch":
            membership = encode_first(groups)
            return BatchPlan(
                **common, commands=commands, shards=2, membership=membership, stamps=given.stamps
            )
        network = {"groups": groups, "nodes": given.nodes, "stamps": given.stamps}
        plan = NetworkPlan(**common, **topics, shards=2, **network)
        return replace(plan, ingress=first_ingress(plan))


ROLES = ("rejects", "events", "commands", "transit")

if __name__ == "__main__":
    main()
