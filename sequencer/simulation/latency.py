"""Figure 2: what ordering costs in time, as *latency stretch*.

"Decentralized Message Ordering for Publish/Subscribe Systems", section 4.2: each host sends a
message to each of its groups, through the sequencing network and directly; "we average the results
and index them by destination nodes". That can be read in two ways, and both are measured: a
receiver's *ratio of averages* (all its times until delivery, against all its direct ones), and its
*average of ratios* (of one delivery each), in which neighbours with next to no direct way count
most. Messages from a host to itself are left out, as their direct way takes no time at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sequencer.simulation.counts import Track
from sequencer.simulation.plan import Ground, NetworkPlan, ground, network, plan
from sequencer.simulation.topology import Floats, Ints, Shape, Topology, transit_stub
from sequencer.simulation.workload import clustered_hosts, names, zipf_groups

# Hosts that are less apart are neighbours, or of one cluster: any detour is a large ratio.
NEIGHBOURS_MS = 1.0
CLUSTER_MS = 10.0


@dataclass(frozen=True, slots=True)
class Stretch:
    """Of one run, an entry for each subscriber that gets anything from others, by name.

    Ratios of averages: `delivered` until delivery, `arrived` until arrival (what is held on top is
    the difference). Averages of ratios: `ratios`, `apart` without senders that are neighbours,
    `far` without all of the own cluster. `pairs` are ratios of single (sender, group, receiver)
    deliveries, unsorted.
    """

    delivered: Floats
    arrived: Floats
    ratios: Floats
    apart: Floats
    far: Floats
    pairs: Floats
    messages: int
    deliveries: int


def measure(
    laid: NetworkPlan, where: Ground, rng: np.random.Generator, *, span_ms: float = 10_000
) -> Stretch:
    """Run the network: every member sends to every group of its own, at random moments of a span.

    RuntimeError if a message has not come to everyone: the figure would be one of survivors.
    """
    net = network(laid, where, rng)
    todo = [
        (group, member) for group in sorted(laid.groups) for member in sorted(laid.groups[group])
    ]
    moments = (rng.random(len(todo)) * span_ms * 1000).astype(np.int64).tolist()
    for (group, member), moment in zip(todo, moments, strict=True):
        net.events.after(moment, partial(net.publish, member, group, f"{group}/{member}"))
    # Long enough for any repetition; a host that never answers would be tried for ever.
    net.events.run(round((span_ms + 60_000) * 1000))
    record = net.record
    wanted = sum(len(members) ** 2 for members in laid.groups.values())
    if len(record.times_us) != wanted:
        raise RuntimeError(f"{len(record.times_us)} of {wanted} deliveries took place")
    return _stretch(where, record.times_us, record.arrived_us, record.sent_us, len(todo))


def _stretch(
    where: Ground,
    times_us: dict[tuple[str, str], int],
    arrived_us: dict[tuple[str, str], int],
    sent_us: dict[str, int],
    messages: int,
) -> Stretch:
    number = {name: at for at, name in enumerate(where.hosts)}
    keys = [(receiver, body) for receiver, body in times_us if body.split("/")[1] != receiver]
    receivers = np.array([number[receiver] for receiver, _ in keys], dtype=np.int64)
    senders = np.array([number[body.split("/")[1]] for _, body in keys], dtype=np.int64)
    sent = np.array([sent_us[body] for _, body in keys]) / 1000
    delivered = np.array([times_us[key] for key in keys]) / 1000 - sent
    arrived = np.array([arrived_us[key] for key in keys]) / 1000 - sent
    direct = np.array([where.direct[name] for name in where.hosts])[receivers, senders]
    size = len(number)
    total = np.bincount(receivers, direct, size)
    apart = total > 0
    ratios = np.divide(delivered, direct, out=np.zeros_like(delivered), where=direct > 0)
    return Stretch(
        np.bincount(receivers, delivered, size)[apart] / total[apart],
        np.bincount(receivers, arrived, size)[apart] / total[apart],
        _averages(receivers, ratios, direct > 0),
        _averages(receivers, ratios, direct >= NEIGHBOURS_MS),
        _averages(receivers, ratios, direct >= CLUSTER_MS),
        ratios[direct > 0],
        messages,
        len(keys),
    )


def _averages(receivers: Ints, ratios: Floats, counted: NDArray[np.bool_]) -> Floats:
    """The average of each receiver's ratios, if it has any among these deliveries."""
    _, receiver, counts = np.unique(receivers[counted], return_inverse=True, return_counts=True)
    averages: Floats = np.bincount(receiver, ratios[counted], len(counts)) / counts
    return averages


@dataclass(frozen=True, slots=True)
class StretchOf:
    """Figure 2 at one number of groups, over all runs.

    `values` are the ratios of averages of all subscribers in all runs, sorted, with `mean`, `p90`
    and `most`; `ratios` their averages of ratios, sorted, too, with `ratios_mean` and
    `ratios_most`; `apart_…` where neighbours are left out, `far_…` where the own cluster is.
    `nodes` is the mean number of sequencing nodes, `pairs_median` the median ratio of single
    deliveries, `held` the mean share of the time to delivery that a message waits at its receiver.
    """

    groups: int
    runs: int
    values: Floats
    mean: float
    p90: float
    most: float
    ratios: Floats
    ratios_mean: float
    ratios_most: float
    apart_mean: float
    apart_most: float
    far_mean: float
    far_most: float
    pairs_median: float
    held: float
    nodes: float
    deliveries: int


def figure(
    track: Track[tuple[int, int]],
    seed: int,
    *,
    runs: int = 10,
    subscribers: int = 128,
    counts: Sequence[int] = (8, 16, 32, 64),
    shape: Shape | None = None,
) -> list[StretchOf]:
    """Figure 2: one topology, and hosts and groups of their own in every run."""
    measured: dict[int, list[tuple[Stretch, int]]] = {count: [] for count in counts}
    for trial in trials(track, seed, runs, subscribers, counts, shape):
        stretch = measure(trial.laid, trial.where, trial.rng)
        measured[trial.count].append((stretch, len(set(trial.laid.nodes.values()))))
    return [_joined(count, results) for count, results in measured.items()]


@dataclass(frozen=True, slots=True)
class Trial:
    """One run: the topology of all runs, hosts on it, this many groups laid over it; randomness."""

    count: int
    topology: Topology
    where: Ground
    laid: NetworkPlan
    rng: np.random.Generator


def trials(
    track: Track[tuple[int, int]],
    seed: int,
    runs: int,
    subscribers: int,
    counts: Sequence[int],
    shape: Shape | None,
) -> Iterator[Trial]:
    """Yield ``runs`` trials for each number of groups; sizes of groups follow Zipf's law."""
    topology = transit_stub(np.random.default_rng([seed, 1]), shape)
    for count, run in track([(count, run) for count in counts for run in range(runs)]):
        rng = np.random.default_rng([seed, 2, count, run])
        where = settled(topology, rng, subscribers)
        laid = plan(zipf_groups(rng, list(where.hosts), count), where)
        yield Trial(count, topology, where, laid, rng)


def settled(topology: Topology, rng: np.random.Generator, subscribers: int) -> Ground:
    """Subscribers on hosts of a topology, in clusters."""
    hosts = clustered_hosts(topology, rng, subscribers).tolist()
    return ground(topology, dict(zip(names("H", subscribers), hosts, strict=True)))


def mean_and_most(values: Floats) -> tuple[float, float]:
    """Both 0 if there are no values: hosts of one cluster alone have none that is far."""
    return (float(values.mean()), float(values.max())) if len(values) else (0.0, 0.0)


def _joined(count: int, results: list[tuple[Stretch, int]]) -> StretchOf:
    values = np.sort(np.concatenate([stretch.delivered for stretch, _ in results]))
    arrived = np.concatenate([stretch.arrived for stretch, _ in results])
    ratios = np.sort(np.concatenate([stretch.ratios for stretch, _ in results]))
    apart = np.concatenate([stretch.apart for stretch, _ in results])
    far = np.concatenate([stretch.far for stretch, _ in results])
    return StretchOf(
        count,
        len(results),
        values,
        float(values.mean()),
        float(np.percentile(values, 90)),
        float(values.max()),
        ratios,
        *mean_and_most(ratios),
        *mean_and_most(apart),
        *mean_and_most(far),
        float(np.median(np.concatenate([stretch.pairs for stretch, _ in results]))),
        max(0.0, float(1 - arrived.mean() / values.mean())),
        float(np.mean([nodes for _, nodes in results])),
        sum(stretch.deliveries for stretch, _ in results),
    )
