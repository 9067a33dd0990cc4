"""Who lives where: the shard of each node, ingress and subscriber of a network."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sequencer.groups.network.routes import Directory
from streaming.disciplines.exchange import Route
from streaming.disciplines.groups.plan import NetworkPlan
from streaming.disciplines.groups.records import groups_of
from streaming.disciplines.state_keys import shard_of_name


def shard_of(node: int, plan: NetworkPlan) -> int:
    """The shard that hosts a node."""
    return node % plan.shards


def subscriber_shard(name: str, plan: NetworkPlan) -> int:
    """The shard of a subscriber."""
    return shard_of_name(name.encode(), plan.shards)


def ingress(name: str, plan: NetworkPlan) -> int:
    """The shard that numbers a group's messages, for ever: where its path begins at first."""
    node = plan.ingress.get(name)
    if node is None:
        # A record may name a group in any bytes: it is unknown, and rejected by this shard.
        node = shard_of(shard_of_name(name.encode(errors="surrogateescape"), plan.nodes), plan)
    return node


def first_ingress(plan: NetworkPlan) -> dict[str, int]:
    """Where the paths of the first membership begin, for groups that have one."""
    directory = new_directory(plan)
    directory.begin(plan.groups)
    paths = [path for view in directory.views.values() for path in view.paths.items()]
    return {name: runs[0].shard for name, runs in paths if runs}


def new_directory(plan: NetworkPlan) -> Directory:
    """A directory without groups."""
    return Directory(plan.nodes, partial(shard_of, plan=plan), plan.retire_after_ms)


def route(plan: NetworkPlan) -> Route:
    """The shard of each input record: that of its group's ingress."""
    return partial(_route, plan=plan)


def _route(table: pa.Table, plan: NetworkPlan) -> NDArray[np.int64]:
    codes, names = groups_of(table)
    # Who names no group has code -1, so the last shard here, however a batch is cut into tables.
    shards = np.array([*(ingress(name, plan) for name in names), 0], dtype=np.int64)
    return shards[codes]
