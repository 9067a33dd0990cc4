"""What a delivery of groups by the batch costs the operator, as groups and subscribers grow.

No Spark, no Kafka: one of two shards alone, from the batch's records to the rows for the sink, its
state dumped after each batch. Times are of the process (CPU), the median batch. Groups have sizes
by Zipf's law, 2 to 1,024 members; messages go to random groups.

    python bench/groups_growth.py
"""

import json
import statistics
import time

import numpy as np
import pyarrow as pa

from streaming.arrow.output import output_rows_of
from streaming.arrow.schemas import RECORD
from streaming.disciplines.broadcast import BroadcastWork
from streaming.disciplines.groups.batch.codec import encode_first
from streaming.disciplines.groups.batch.core import BatchOperator
from streaming.disciplines.groups.plan import BatchPlan

GRID = [(8, 128), (32, 128), (128, 128), (1024, 128), (1024, 10_000), (1024, 100_000)]
DELIVERIES, BATCHES = 200_000, 7


def main():
    print(
        "| groups | subscribers | µs a delivery | without stamps | stamps, bytes | one `set`, ms "
        "| state, KB | state read anew, ms |\n|---|---|---|---|---|---|---|---|"
    )
    for groups, subscribers in GRID:
        members = membership(groups, subscribers)
        cost, stamps, change, state, load = measured(members, stamps=True)
        plain, *_ = measured(members, stamps=False)
        print(
            f"| {groups:,} | {subscribers:,} | {cost:.2f} | {plain:.2f} | {stamps:,.0f} "
            f"| {change:.1f} | {state / 1000:,.0f} | {load:.0f} |",
            flush=True,
        )


def membership(groups, subscribers):
    rng = np.random.default_rng(1)
    sizes = np.minimum(2 * rng.zipf(1.5, groups), min(subscribers, 1024))
    names = [f"s{n}" for n in range(subscribers)]
    drawn = (rng.choice(subscribers, size, replace=False) for size in sizes.tolist())
    return {f"G{n}": [names[at] for at in each] for n, each in enumerate(drawn)}


def measured(members, *, stamps):
    """µs for a delivery, bytes of its stamps, ms of a `set`, bytes of state, ms to read it."""
    operator = BatchOperator(plan(members, stamps))
    core = operator.core(0)
    sizes = {name: len(some) for name, some in members.items()}
    count = max(20, round(DELIVERIES / statistics.mean(sizes.values())))
    costs, written, texts = [], 0, 0
    for batch in range(BATCHES):
        work = BroadcastWork(records(list(members), count, batch), RECORD.empty_table(), batch + 1)
        began, done = time.process_time(), 0
        for write in core.step(work):
            list(output_rows_of(0, write, wrote_before=True))
            done += len(write[1])
            if "stamps" in write[1].column_names:
                text = write[1]["stamps"].combine_chunks().cast(pa.string())
                texts += pa.compute.sum(pa.compute.binary_length(text)).as_py() or 0
        core.dump()
        costs.append((time.process_time() - began) / done * 1e6)
        written += done
    changes = []
    for turn, name in enumerate(list(members)[:5]):
        value = json.dumps({"op": "set", "group": name, "members": [*members[name], f"new{turn}"]})
        began = time.process_time()
        list(core.step(BroadcastWork(RECORD.empty_table(), command(value), BATCHES + 1)))
        state = core.dump()
        changes.append((time.process_time() - began) * 1000)
    fresh = operator.core(0)
    began = time.process_time()
    fresh.load(state)
    load = (time.process_time() - began) * 1000
    return statistics.median(costs), texts / written, statistics.median(changes), len(state), load


def plan(members, stamps):
    roles = ("output", "rejects", "events", "commands")
    return BatchPlan(
        service="s", pipeline="p", inputs=("in",), partitions={}, shards=2, stamps=stamps,
        membership=encode_first(members), **dict(zip(roles, roles, strict=True)),
    )  # fmt: skip


def records(names, count, seed):
    drawn = np.random.default_rng(seed).integers(len(names), size=count).tolist()
    return table(
        topic=[0] * count,
        offset=range(count),
        key=[b"p%d" % (n % 50) for n in range(count)],
        value=[bytes(100)] * count,
        headers=[[{"key": "group", "value": names[at].encode()}] for at in drawn],
    )


def command(value):
    return table(topic=[1], offset=[0], key=[None], value=[value.encode()], headers=[None])


def table(**columns):
    count = len(columns["topic"])
    columns |= {"partition": [0] * count, "timestamp": [0] * count}
    return pa.table({name: columns[name] for name in RECORD.names}, schema=RECORD)


if __name__ == "__main__":
    main()
