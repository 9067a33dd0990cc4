"""One job of the benchmark in a process of its own: a stateless copy, or the channel pipeline.

Prints one JSON line: the batches (rows, ms) in order. `--seconds` runs with a trigger of 0 ms so
long (for latency); without it the job stops after --until messages.
"""

import argparse
import json
import shutil
import tempfile
import time

from sequencer.channels import Rules
from sequencer.labels import LinearLabels
from streaming.config import parse_config
from streaming.plan import ChannelPlan
from streaming.query import Carrier, Progress, build, start
from streaming.service import spark_session

STOCK = {
    "spark.python.unix.domain.socket.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
    ),
}
"""The copy runs as Spark comes, without what the service sets."""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["copy", "at-least-once", "exactly-once"])
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("output")
    parser.add_argument("--batch", type=int, default=250_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--until", type=int, default=0, help="stop after so many messages")
    parser.add_argument("--seconds", type=float, default=0)
    given = parser.parse_args()
    tables = {
        "service": {"name": given.output},
        "kafka": {"bootstrap_servers": given.bootstrap},
        "spark": {
            "spark.master": "local[2]",
            "spark.driver.memory": "4g",
            **(STOCK if given.kind == "copy" else {}),
        },
        "pipelines": {"p": {"discipline": "channel"}},
    }
    folder = tempfile.mkdtemp(prefix="bench-")
    try:
        with spark_session(parse_config(tables, {}, "bench")) as session:
            query = run(session, given, folder)
            if given.seconds:
                time.sleep(given.seconds)
                query.stop()
            else:
                wait_for(query, given.until)
                query.stop()
            batches = [
                (p["numInputRows"], p["durationMs"]["triggerExecution"], p["durationMs"])
                for p in query.recentProgress
            ]
        print(json.dumps(batches))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def wait_for(query, count, limit_s=1800):
    """Wait until the query has read so many rows."""
    deadline = time.monotonic() + limit_s
    while sum(p["numInputRows"] for p in query.recentProgress) < count:
        if not query.isActive or time.monotonic() > deadline:
            raise SystemExit(f"the query did not finish: {query.exception()}")
        time.sleep(0.2)


def run(session, given, folder):
    options = {
        "kafka.bootstrap.servers": given.bootstrap,
        "maxOffsetsPerTrigger": str(given.batch),
    }
    if given.kind == "copy":
        source = (
            session.readStream.format("kafka")
            .options(**options)
            .option("subscribe", given.topic)
            .option("includeHeaders", "true")
            .option("startingOffsets", "earliest")
            .load()
        )
        return (
            source.select("key", "value", "headers")
            .writeStream.format("kafka")
            .option("kafka.bootstrap.servers", given.bootstrap)
            .option("topic", given.output)
            .option("checkpointLocation", folder)
            .trigger(processingTime="0 milliseconds")
            .start()
        )
    names = (given.output, f"{given.output}.rejects", f"{given.output}.events")
    output, rejects, events = names
    plan = ChannelPlan(
        service=given.output,
        pipeline="p",
        inputs=(given.topic,),
        output=output,
        rejects=rejects,
        events=events,
        partitions=dict.fromkeys(names, given.partitions),
        rules=Rules(LinearLabels()),
        delivery=given.kind,
        shards=16,
        state_partitions=2,
        producer={"bootstrap.servers": given.bootstrap},
    )
    session.conf.set("spark.sql.shuffle.partitions", "2")
    carrier = Carrier(plan, Progress(), lambda _: None)
    frame = build(session, plan, options)
    query = start(frame, plan, folder, carrier, trigger_ms=0)
    carrier.begin(str(query.id))
    return query


if __name__ == "__main__":
    main()
