"""`sequencer simulate`: the paper's figures, and the network under faults."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from streaming.errors import ConfigError

FIGURES = ("1", "2", "3", "4", "hosts", "stamps", "load", "trees", "growth", "changes", "cost")
RUNS_MAX = 10_000
NOTHING = "Nothing was simulated."


def simulate(
    figure: Annotated[
        str,
        typer.Option("--figure", help=f"{', '.join(FIGURES)} or all."),
    ] = "all",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Draw plots into this folder."),
    ] = None,
    pages: Annotated[
        list[Path] | None,
        typer.Option("--page", metavar="FILE", help="Update the tables in this Markdown page."),
    ] = None,
    runs: Annotated[
        int | None, typer.Option("--runs", help="Runs for each point; each figure has its own.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The seed of all random numbers.")] = 1,
    safety: Annotated[
        bool, typer.Option("--safety", help="Run the network under faults and judge it instead.")
    ] = False,
    faults: Annotated[
        str,
        typer.Option(
            "--faults", help="With --safety: the faults, as name=value,… (see below), or none."
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Results for programs.")] = False,
) -> None:
    """Simulate the ordering of overlapping groups.

    The group protocol by message runs on simulated machines in a network of 10,000 routers; a
    service (sequencing = "network") runs it by batch, and tests hold both together. Without options
    all figures are measured, some minutes of work; tables go to standard output, each with what the
    paper ("Decentralized Message Ordering for Publish/Subscribe Systems") says beside it.

    Figures: 1 groups that come and go, and their sequencers; 2 latency stretch; 3 sequencing nodes
    by groups; 4 nodes and overlaps by occupancy; hosts: fewer hosts, and groups of neighbours;
    stamps: numbers on a message against a vector timestamp; load: the busiest node, and other
    placements; trees: the line of atoms against other lines and trees; growth: up to 1,000 groups
    and 10,000 subscribers (one run, about a minute); changes: after up to 1,000 joins and leaves, a
    graph changed atom by atom beside one made anew; cost: comparisons for a multicast, by
    destinations and length of queues.

    --page, any number of times: a table is put between <!-- figure 2 --> and
    <!-- end of figure 2 -->, for the figures that the page has places for.

    --safety: many small networks (--runs, default 20), each with lost, repeated and reordered
    frames, cut lines, crashed machines, and groups that change; then the faults end and everything
    must be delivered. The deliveries are judged: one order for all, exactly once, members only,
    senders' order, causality. --faults changes what goes wrong; names and defaults: loss=0.1,
    duplicate=0.1, late=0.2, late_ms=100, cuts=4, crashes=8, down_ms=2000, commit_ms=2.

    Exit status: 0 fine; 1 an invariant is broken (with a witness); 2 the call is wrong.

    Example: sequencer simulate --figure 2 -o plots, or sequencer simulate --safety --seed 7
    """
    _check_numbers(runs, seed)
    if safety:
        from streaming.simulate.safety import judge_runs  # noqa: PLC0415  (a quick --help)

        if output is not None or pages or figure != "all":
            raise ConfigError(
                "--safety draws nothing.", NOTHING, "Leave out --figure, --page and -o."
            )
        judge_runs(faults, runs or 20, seed, as_json=as_json)
        return
    if faults:
        raise ConfigError("--faults belongs to --safety.", NOTHING, "Add --safety.")
    _figures(_chosen(figure), output, pages or [], runs, seed, as_json=as_json)


def _check_numbers(runs: int | None, seed: int) -> None:
    if runs is not None and not 1 <= runs <= RUNS_MAX:
        raise ConfigError(f"--runs is {runs}.", NOTHING, f"Give 1 to {RUNS_MAX:,}.")
    if seed < 0:
        raise ConfigError(f"--seed is {seed}.", NOTHING, "Give 0 or more.")


def _chosen(figure: str) -> tuple[str, ...]:
    if figure == "all":
        return FIGURES
    if figure not in FIGURES:
        raise ConfigError(
            f"There is no figure {figure}.", NOTHING, f"Choose {', '.join(FIGURES)} or all."
        )
    return (figure,)


def _figures(
    chosen: Sequence[str],
    output: Path | None,
    pages: Sequence[Path],
    runs: int | None,
    seed: int,
    *,
    as_json: bool,
) -> None:
    from streaming.simulate.tables import rows, table  # noqa: PLC0415  (a quick --help)

    draw = _drawing(output)
    for page in pages:
        _renew(page, {})
    plain = {}
    for name in chosen:
        results = measured(name, runs, seed)
        plain[name] = [_plain(result) for result in results]
        for page in pages:
            _renew(page, {name: rows(name, results)})
        if not as_json:
            print(table(name, results), flush=True)
        if draw is not None:
            print(f"drawn: {draw(name, results)}", file=sys.stderr)
    if as_json:
        print(json.dumps({"seed": seed, "figures": plain}, indent=2))


def _renew(page: Path, tables: dict[str, str]) -> None:
    """Put tables into a page; ConfigError where that is impossible."""
    from streaming.simulate.tables import renewed  # noqa: PLC0415  (a quick --help)

    try:
        before = page.read_text(encoding="utf-8")
        after = renewed(before, tables)
        if after != before:
            page.write_text(after, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"The page {page} cannot be renewed: {error}.",
            "It is as it was, or has the tables that were printed before.",
            "Give a Markdown page with places for tables (see --help).",
        ) from error


def _drawing(output: Path | None) -> Callable[[str, Sequence[Any]], Path] | None:
    if output is None:
        return None
    try:
        from streaming.simulate.figures import draw  # noqa: PLC0415  (matplotlib may be missing)
    except ImportError as error:
        raise ConfigError(
            f"Plots need matplotlib, and it cannot be imported: {error}.",
            "Nothing was simulated.",
            "pip install 'spark-sequencer[figures]', or leave out -o for tables alone.",
        ) from error
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"Plots cannot be written to {output}: {error.strerror}.",
            "Nothing was simulated.",
            "Give a folder with -o.",
        ) from error

    def drawn(name: str, results: Sequence[Any]) -> Path:
        try:
            return draw(name, results, output)
        except OSError as error:
            raise ConfigError(
                f"The plot of figure {name} cannot be written to {output}: {error.strerror}.",
                "Tables above are complete.",
                "Give another folder with -o.",
            ) from error

    return drawn


def measured(name: str, runs: int | None, seed: int) -> Sequence[Any]:
    """The results of a figure, with a line of progress on standard error."""
    from sequencer.checking import cost  # noqa: PLC0415
    from sequencer.simulation import (  # noqa: PLC0415
        changes,
        counts,
        figure1,
        growth,
        hosts,
        latency,
        load,
        stamps,
        trees,
    )
    from streaming.simulate.progress import tracked  # noqa: PLC0415

    title = f"figure {name}" if name.isdigit() else name
    track = partial(tracked, title)
    # These two are the same whatever the seed.
    if name == "1":
        return figure1.steps()
    if name == "cost":
        return cost.growth(track)
    figures: dict[str, Callable[..., Sequence[Any]]] = {
        "2": latency.figure,
        "3": counts.by_groups,
        "4": counts.by_occupancy,
        "hosts": hosts.figure,
        "stamps": stamps.figure,
        "load": load.figure,
        "trees": trees.figure,
        "growth": growth.figure,
        "changes": changes.figure,
    }
    chosen = {} if runs is None or name == "growth" else {"runs": runs}
    return figures[name](track, seed, **chosen)


def _plain(result: Any) -> dict[str, Any]:
    plain = asdict(result)
    for step in plain.get("sequencers", ()):
        step["members"] = sorted(step["members"])
    for sorted_values in plain.keys() & {"values", "ratios"}:
        plain[sorted_values] = [round(value, 4) for value in plain[sorted_values].tolist()]
    return plain
