"""What a delivery of multicast by the batch costs the operator, as destinations and peers grow.

No Spark, no Kafka: one of two shards alone, from the batch's records to the rows for the sink, its
state dumped after each batch. Times are of the process (CPU), the median batch. Every message goes
to other peers, drawn from all.

    python bench/multicast_growth.py
"""

import statistics
import time

import numpy as np
import pyarrow as pa

from streaming.arrow.output import output_rows_of
from streaming.arrow.schemas import RECORD
from streaming.disciplines.broadcast import BroadcastWork
from streaming.disciplines.multicast.batch.core import BatchOperator
from streaming.disciplines.multicast.plan import BatchMulticastPlan

GRID = [(1, 1_000), (8, 1_000), (50, 1_000), (8, 10_000), (8, 100_000)]
DELIVERIES, BATCHES = 200_000, 7


def main():
    print("| destinations | of peers | µs a delivery | bytes to the sink | state, KB |")
    print("|---|---|---|---|---|")
    for destinations, peers in GRID:
        cost, size, state = measured(destinations, peers)
        print(f"| {destinations} | {peers:,} | {cost:.2f} | {size:.0f} | {state / 1000:,.0f} |")


def measured(destinations, peers):
    """µs and bytes for a delivery, bytes of state."""
    core = BatchOperator(plan()).core(0)
    costs, size, state = [], 0, b""
    for batch in range(BATCHES):
        work = BroadcastWork(records(destinations, peers, batch), RECORD.empty_table(), batch + 1)
        began, done, size = time.process_time(), core.totals.delivered, 0
        for write in core.step(work):
            size += sum(len(row["rows"][0]) for row in output_rows_of(0, write, wrote_before=True))
        state = core.dump()
        done = core.totals.delivered - done
        costs.append((time.process_time() - began) / done * 1e6)
    return statistics.median(costs), size / done, len(state)


def plan():
    roles = ("output", "rejects", "events", "commands")
    topics = dict(zip(roles, roles, strict=True))
    return BatchMulticastPlan(
        service="s", pipeline="p", inputs=("in",), partitions={}, shards=2, **topics
    )


def records(destinations, peers, seed):
    count = DELIVERIES // destinations
    names = np.array([b"p%06d" % n for n in range(peers)], object)
    drawn = names[np.random.default_rng(seed).integers(peers, size=(count, destinations))]
    columns = {
        "topic": [0] * count,
        "partition": [0] * count,
        "offset": range(count),
        "timestamp": [0] * count,
        "key": [b"s%d" % (n % 50) for n in range(count)],
        "value": [bytes(100)] * count,
        "headers": [[{"key": "to", "value": b",".join(each)}] for each in drawn],
    }
    return pa.table({name: columns[name] for name in RECORD.names}, schema=RECORD)


if __name__ == "__main__":
    main()
