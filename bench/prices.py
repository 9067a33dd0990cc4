"""What features of groups and multicasts cost the operator where they are switched on.

No Spark, no Kafka: shards step one after the other, from a batch's records to the rows for the
sink; those that send each other messages go on until all is delivered. CPU of the process; ratios
to the line of the same order without features, of one run only.

    PYTHONPATH=. python bench/prices.py
"""

import time
from dataclasses import replace

import numpy as np
import pyarrow as pa

from bench import groups_growth, multicast_growth
from streaming.arrow.output import output_rows_of
from streaming.arrow.schemas import RECORD
from streaming.disciplines.broadcast import BroadcastWork
from streaming.disciplines.exchange import ShardWork
from streaming.disciplines.groups.batch.core import BatchOperator as GroupOperator
from streaming.disciplines.groups.network.core import NetworkOperator
from streaming.disciplines.groups.network.route import first_ingress
from streaming.disciplines.groups.network.route import route as to_ingress
from streaming.disciplines.groups.plan import NetworkPlan
from streaming.disciplines.multicast.batch.core import BatchOperator as MulticastOperator
from streaming.disciplines.multicast.plan import MulticastPlan
from streaming.disciplines.multicast.protocol.core import MulticastOperator as ProtocolOperator
from streaming.disciplines.multicast.protocol.route import route as to_sender

TURNS, SHARDS = 3, 2
CHANGES = {"notices": True, "input_commands": ("join", "leave")}
ENDS = {"input_commands": ("destroy-node", "release")}


def main():
    print("| pipeline | with | µs a delivery, each turn | of that without |\n|---|---|---|---|")
    for title, cost, features in cases():
        costs = {name: [] for name in ("nothing", *features)}
        for _ in range(TURNS):
            for name, each in costs.items():
                each.append(cost(features.get(name, {})))
        for name, each in costs.items():
            ratio = sorted(each)[TURNS // 2] / sorted(costs["nothing"])[TURNS // 2]
            shown = ", ".join(f"{one:.2f}" for one in each)
            print(f"| {title} | {name} | {shown} | {ratio:.2f} |", flush=True)


def cases():
    """Of each pipeline a function from settings to the CPU of a delivery, and settings."""
    members = groups_growth.membership(32, 128)
    to_groups = [groups_growth.records([*members], 4_000, seed) for seed in range(4)]
    to_peers = [multicast_growth.records(8, 1_000, seed).slice(0, 8_000) for seed in range(4)]
    few = [batch.slice(0, 250) for batch in to_peers[:2]]
    by_batch = groups_growth.plan(members, stamps=True)
    network = exchange_plan(
        NetworkPlan, groups={name: tuple(some) for name, some in members.items()}
    )
    network = replace(network, ingress=first_ingress(network))
    changes = {"notices": {"notices": True}, "notices, input_commands": CHANGES}
    multicast = multicast_growth.plan()
    yield (
        "groups",
        lambda more: alone(GroupOperator(replace(by_batch, **more)), to_groups),
        changes,
    )
    yield (
        "multicast",
        lambda more: alone(MulticastOperator(replace(multicast, **more)), to_peers),
        {"input_commands": ENDS},
    )
    yield (
        "network",
        lambda more: together(NetworkOperator(replace(network, **more)), to_ingress, to_groups),
        changes,
    )
    for order in ("clock", "counter"):
        plan = exchange_plan(MulticastPlan, order=order)
        yield (
            order,
            lambda more, plan=plan: together(
                ProtocolOperator(replace(plan, **more)), to_sender, few
            ),
            {"input_commands": ENDS},
        )


def exchange_plan(kind, **more):
    topics = dict.fromkeys(("output", "rejects", "events", "transit"), 4)
    roles = {role: role for role in topics}
    return kind(
        service="s", pipeline="p", inputs=("in",), commands="commands", partitions=topics,
        shards=SHARDS, **roles, **more,
    )  # fmt: skip


def alone(operator, batches):
    """µs of CPU for a delivery of one shard that reads every record: the least of the batches."""
    core, costs = operator.core(0), []
    for number, records in enumerate(batches):
        began, done = time.process_time(), 0
        for write in core.step(BroadcastWork(records, RECORD.empty_table(), number + 1)):
            list(output_rows_of(0, write, wrote_before=True))
            done += len(write[1])
        core.dump()
        costs.append((time.process_time() - began) / done * 1e6)
    return min(costs)


def together(operator, route, batches):
    """µs of CPU for a delivery of shards that send each other messages, until all are there."""
    cores = [operator.core(number) for number in range(SHARDS)]
    arrived, waiting = [[] for _ in cores], [*batches]
    began, done, now_ms = time.process_time(), 0, 0
    while waiting or any(arrived):
        records, now_ms = waiting.pop(0) if waiting else RECORD.empty_table(), now_ms + 10
        homes = np.asarray(route(operator.plan)(records))
        sent = [[] for _ in cores]
        for number, core in enumerate(cores):
            own = records.filter(pa.array(homes == number)).combine_chunks()
            work = ShardWork(own, RECORD.empty_table(), arrived[number], now_ms)
            outcome = core.step(work)
            for write in outcome.writes:
                list(output_rows_of(0, write, wrote_before=True))
                done += len(write[1]) if write[0] == "output" else 0
            for to, chunks in outcome.outgoing.items():
                sent[to] += [(number, chunk) for chunk in chunks]
            core.dump()
        arrived = sent
    return (time.process_time() - began) / done * 1e6


if __name__ == "__main__":
    main()
