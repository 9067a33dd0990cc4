"""What it costs that each shard of groups and multicasts by the batch reads all of a batch.

No Spark, no Kafka: all shards of a pipeline, one after the other, from the batch's records to the
rows for the sink, for 2, 4, 8 and 16 shards. Times are of the process (CPU), the least of some
batches: what one more shard costs beside the deliveries, which are the same however many there are.

    PYTHONPATH=. python bench/shards.py
"""

import time
from dataclasses import replace

from bench import groups_growth, multicast_growth
from streaming.arrow.output import output_rows_of
from streaming.arrow.schemas import RECORD
from streaming.disciplines.broadcast import BroadcastWork
from streaming.disciplines.groups.batch.core import BatchOperator as GroupOperator
from streaming.disciplines.multicast.batch.core import BatchOperator as MulticastOperator

SHARDS, BATCHES, COUNT = (2, 4, 8, 16), 5, 200_000


def main():
    members = groups_growth.membership(32, 128)
    names = list(members)
    size = sum(map(len, members.values())) / len(members)
    cases = (
        ("groups, 32 of 128 subscribers", GroupOperator, groups_growth.plan(members, stamps=True),
         lambda seed: groups_growth.records(names, round(COUNT / size), seed)),
        ("multicast, 8 of 1,000 peers", MulticastOperator, multicast_growth.plan(),
         lambda seed: multicast_growth.records(8, 1_000, seed)),
        ("multicast, 1 of 1,000 peers", MulticastOperator, multicast_growth.plan(),
         lambda seed: multicast_growth.records(1, 1_000, seed)),
    )  # fmt: skip
    print("| pipeline | messages | " + " | ".join(f"{count} shards" for count in SHARDS) + " |")
    print("|---|---|" + "---|" * len(SHARDS))
    for title, operator, plan, make in cases:
        batches = [make(seed) for seed in range(BATCHES)]
        costs = [cost(operator(replace(plan, shards=count)), count, batches) for count in SHARDS]
        shown = " | ".join(f"{each:.2f}" for each in costs)
        print(f"| {title} | {len(batches[0]):,} | {shown} |", flush=True)


def cost(operator, shards, batches):
    """µs of CPU for a delivery, all shards together."""
    cores = [operator.core(shard) for shard in range(shards)]
    costs = []
    for number, records in enumerate(batches):
        began, done = time.process_time(), -sum(core.totals.delivered for core in cores)
        for core in cores:
            work = BroadcastWork(records, RECORD.empty_table(), number + 1)
            for write in core.step(work):
                list(output_rows_of(0, write, wrote_before=True))
            core.dump()
        done += sum(core.totals.delivered for core in cores)
        costs.append((time.process_time() - began) / done * 1e6)
    return min(costs)


if __name__ == "__main__":
    main()
