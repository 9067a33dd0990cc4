"""What the sink costs for a record: rows like a channel's deliveries, in transactions, to a broker.

For each way to write: CPU of the writing process and time until the commit, in microseconds a
record; the ways take turns. Rows have 100 bytes that look like JSON, a header of their own and two
added ones, and go to four partitions.

    python bench/sink.py                      # a minute on two cores
"""

import argparse
import json
import statistics
import time

import numpy as np
import pyarrow as pa
from harness import PARTITIONS, create, say, warm_broker

from streaming.arrow.schemas import HEADERS
from streaming.disciplines.plan import BatchContext, Plan
from streaming.sink.writer import writer_for

CHANNELS = 10_000
WAYS = {
    "record batches, not compressed": {"compression.type": "none"},
    "record batches, lz4": {},
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    with warm_broker() as bootstrap:
        for records in given.records:
            table(records, measure(bootstrap, records, given.rounds))


def measure(bootstrap, records, rounds):
    """For each way its rounds, (CPU, time) in us a record; the first round warms up."""
    prefix = f"sink-{records}"
    create(bootstrap, prefix, f"{prefix}.events")
    written, partitions, added = rows(records)
    found = {way: [] for way in WAYS}
    for batch in range(rounds + 1):
        for number, (way, properties) in enumerate(WAYS.items()):
            plan = make_plan(bootstrap, prefix, way, properties)
            context = BatchContext("bench", batch, in_doubt=False, wrote={number: batch - 1})
            writer = writer_for(plan, number, context)
            cpu, began = time.process_time(), time.perf_counter()
            with writer.batch(BatchContext("bench", batch)):
                writer.write(prefix, written, partitions, added)
            spent = time.process_time() - cpu, time.perf_counter() - began
            found[way].append([each / records * 1e6 for each in spent])
    say(f"{records:,} records a batch: done")
    return {way: each[1:] for way, each in found.items()}


def make_plan(bootstrap, prefix, way, properties):
    return Plan(
        service=f"{prefix}-{way}",
        pipeline="p",
        inputs=("in",),
        output=prefix,
        rejects=f"{prefix}.rejects",
        events=f"{prefix}.events",
        partitions={prefix: PARTITIONS},
        producer={"bootstrap.servers": bootstrap, **properties},
    )


def rows(count):
    """A table as an operator hands it to the sink, where its rows go, and the added headers."""
    rng = np.random.default_rng(1)
    channels = rng.integers(0, CHANNELS, count)
    labels = np.arange(count) // 20
    values = [
        json.dumps({"id": int(n), "price": f"{p:.2f}", "venue": "XETR", "side": "buy"}).ljust(100)
        for n, p in zip(labels, rng.uniform(1, 500, count), strict=True)
    ]
    label = pa.array([b"%d" % each for each in labels.tolist()])
    pairs = pa.StructArray.from_arrays(
        [pa.array(["label"] * count), label], fields=list(HEADERS.value_type)
    )
    headers = pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32)), pairs)
    written = pa.table(
        {
            "key": pa.array([b"c%07d" % each for each in channels.tolist()]),
            "value": pa.array([each.encode() for each in values]),
            "headers": headers,
            "timestamp": pa.array(1_700_000_000_000 + np.arange(count) // 100),
        }
    )
    incarnation = pa.array(np.full(count, 1_700_000_000_000)).dictionary_encode()
    added = [("sequence", pa.array(labels)), ("incarnation", incarnation)]
    return written, (channels % PARTITIONS).astype(np.int32), added


def table(records, found):
    print(f"\n{records:,} records a batch, us a record, median (least, most):\n")
    print("| way | CPU | until the commit |\n|---|---|---|")
    for way, rounds in found.items():
        cells = (
            f"{statistics.median(each):.2f} ({min(each):.2f}, {max(each):.2f})"
            for each in zip(*rounds, strict=True)
        )
        print(f"| {way} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
