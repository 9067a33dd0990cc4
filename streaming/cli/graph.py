"""`sequencer graph`: a picture of groups, atoms and sequencing nodes."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streaming.errors import ConfigError

if TYPE_CHECKING:
    from sequencer.groups.network.overview import Overview
    from streaming.config import Config
    from streaming.disciplines.groups.settings import GroupPipeline


def graph(
    config: Annotated[Path, typer.Argument(help="The service's TOML file.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.svg", help="Write to this file."),
    ] = None,
    pipeline: Annotated[
        str | None, typer.Option("--pipeline", help="Which pipeline, if there are several.")
    ] = None,
    running: Annotated[
        bool,
        typer.Option("--running", help="The current groups and their messages, from Kafka."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the graph as JSON instead of a picture.")
    ] = False,
) -> None:
    """Draw the groups of a pipeline and their overlaps, as SVG.

    Draws the groups of CONFIG (the first membership) and the overlaps of two or more common
    subscribers. With sequencing = "network" it also draws the nodes, the path of each group through
    its atoms, and each node's load (each group counts as one message) beside the load of the
    busiest receiver. In a browser, tooltips show names, members and counts, and one group can be
    highlighted. Needs neither Kafka nor Spark. The picture goes to standard output unless a file is
    given. docs/groups-graph.md explains how to read it.

    With --running: the current groups, read from the events topic, with each group's number of
    messages, counted in the input, and (in the order of the batch) the next numbers of the first
    100 overlaps, from the last batch's status. The service need not run.

    Exit status: 0; 1 Kafka does not answer (--running); 2 the configuration or the call is wrong,
    or the picture would be too large.

    Example: sequencer graph market.toml -o market.svg
    """
    from sequencer.groups.network.overview import overview  # noqa: PLC0415  (a quick --help)
    from streaming.config import load_config  # noqa: PLC0415
    from streaming.graph import overlaps, svg  # noqa: PLC0415

    settings = load_config(config)
    name, chosen = _chosen(settings, pipeline)
    if running:
        groups, messages, numbers = _now(settings, name)
    else:
        groups, messages = {group: list(members) for group, members in chosen.groups.items()}, None
        numbers = {}
    if chosen.sequencing == "batch":
        if as_json:
            shown = {"pipeline": name, **plain_overlaps(groups, messages, numbers)}
            _put(json.dumps(shown, indent=2) + "\n", output)
        else:
            picture = overlaps.draw_overlaps(
                groups, messages, f"{name}: groups and overlaps", numbers
            )
            _put(picture, output)
        print(f"{name}: {overlaps.sizes(groups)}.", file=sys.stderr)
        return
    view = overview(groups, chosen.sequencing_nodes, messages)
    if as_json:
        _put(json.dumps({"pipeline": name, **plain(view)}, indent=2) + "\n", output)
    else:
        _put(svg.drawn(view, f"{name}: groups, atoms and sequencing nodes"), output)
    print(f"{name}: {svg.summary(view)}.", file=sys.stderr)
    if view.overloads:
        print(f"  {_above(view, name, chosen)}", file=sys.stderr)


def _now(config: Config, name: str) -> tuple[Any, dict[str, int] | None, Any]:
    """Return the groups with their members, messages, and overlaps' numbers, from Kafka."""
    from streaming.verify import current  # noqa: PLC0415

    groups = {group: listed.members for group, listed in current.now(config, name).items()}
    counted = current.messages(config, name)
    return groups, {group: counted[group] for group in groups}, current.numbers(config, name)


def _above(view: Overview, name: str, chosen: GroupPipeline) -> str:
    """Which nodes order more than the busiest receiver gets, and what helps."""
    nodes = ", ".join(str(overload.node) for overload in view.overloads)
    problem = f"Above the limit, what the busiest receiver gets: node {nodes}."
    if chosen.sequencing_nodes < chosen.nodes:
        return f"{problem} One node orders all with pipelines.{name}.sender_order = across-groups."
    return f"{problem} More nodes (pipelines.{name}.nodes) can help; messages take more hops then."


def plain_overlaps(
    groups: Mapping[str, Collection[str]],
    messages: Mapping[str, int] | None,
    numbers: Mapping[tuple[str, str], int],
) -> dict[str, Any]:
    """Groups and double overlaps as JSON has them; ``messages`` are counted, or 1 each.

    ``numbers``: the overlaps' next ones, where known.
    """
    from sequencer.groups.network.overlaps import double_overlaps  # noqa: PLC0415

    overlaps = double_overlaps(groups)
    return {
        "counted": messages is not None,
        "groups": {
            name: {
                "members": sorted(groups[name]),
                "messages": 1 if messages is None else messages.get(name, 0),
                "overlaps": [at for at, overlap in enumerate(overlaps) if name in overlap.pair],
            }
            for name in sorted(groups)
        },
        "overlaps": [
            {
                "groups": list(overlap.pair),
                "common": sorted(overlap.members),
                **({"number": numbers[overlap.pair]} if overlap.pair in numbers else {}),
            }
            for overlap in overlaps
        ],
    }


def plain(view: Overview) -> dict[str, Any]:
    """The graph as JSON has it.

    ``atoms`` are in an order that all paths follow; a group passes those from the first to the last
    of its ``atoms``, and they number its messages. ``edges`` are between nodes.
    """
    from sequencer.groups.network.placement import node_paths  # noqa: PLC0415

    order = view.graph.order()
    index = {pair: at for at, pair in enumerate(order)}
    paths = node_paths(view.graph, view.placed)
    users: dict[tuple[int, int], list[str]] = {}
    for name in view.groups:
        for edge in pairwise(paths[name]):
            users.setdefault(edge, []).append(name)
    over = {overload.node for overload in view.overloads}
    return {
        "counted": view.counted,
        "nodes_max": view.nodes,
        "busiest": {"subscriber": view.busiest, "messages": view.limit} if view.busiest else None,
        "groups": {
            name: {
                "members": list(members),
                "messages": view.messages[name],
                "atoms": [index[pair] for pair in view.graph.stamping(name)],
                "nodes": list(paths[name]),
            }
            for name, members in view.groups.items()
        },
        "ingress_only": list(view.ingress_only),
        "atoms": [
            {"groups": list(pair), "node": view.placed[pair], "common": sorted(members)}
            for pair in order
            for members in [view.graph.atoms[pair]]
        ],
        "nodes": [
            {
                "node": load.node,
                "orders": load.ordering,
                "passes": load.passing,
                "over": load.node in over,
            }
            for load in view.loads
        ],
        "edges": [
            {"from": first, "to": second, "groups": names}
            for (first, second), names in sorted(users.items())
        ],
    }


def _chosen(settings: Config, name: str | None) -> tuple[str, GroupPipeline]:
    """The pipeline to draw, and its name."""
    known = [name for name, of in settings.pipelines.items() if of.discipline == "group"]
    known_ones = f"Known ones: {', '.join(known) or 'none'}."
    if name is None:
        if len(known) == 1:
            return known[0], settings.pipelines[known[0]]
        if known:
            raise ConfigError(
                f"{settings.source} has several pipelines of discipline group.",
                "Nothing was drawn.",
                f"Choose one: --pipeline {known[0]}. {known_ones}",
            )
        raise ConfigError(
            f"{settings.source} has no pipeline of discipline group.",
            "Nothing was drawn.",
            'Only discipline = "group" has a sequencing graph.',
        )
    if name not in settings.pipelines:
        raise ConfigError(f"There is no pipeline {name!r}.", "Nothing was drawn.", known_ones)
    pipeline = settings.pipelines[name]
    if pipeline.discipline != "group":
        raise ConfigError(
            f"Pipeline {name} is of discipline {pipeline.discipline}; only group has a graph.",
            "Nothing was drawn.",
            known_ones,
        )
    return name, pipeline


def _put(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="ascii", newline="\n")
    except OSError as error:
        raise ConfigError(
            f"{output} cannot be written: {error.strerror}.",
            "Nothing was drawn.",
            "Give another file with -o.",
        ) from error
