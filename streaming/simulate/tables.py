"""Tables of what `sequencer simulate` measures, with what the paper says beside it.

The paper gives few figures in its text (sections 4.2 to 4.4), and its plots not as numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_PLACE = re.compile(r"<!-- figure (.*?) -->")


def table(name: str, results: Sequence[Any]) -> str:
    """The table of a figure, in Markdown."""
    title, _ = _TABLES[name]
    return f"**{title}**\n\n{rows(name, results)}\n"


def rows(name: str, results: Sequence[Any]) -> str:
    """The table without its title."""
    _, columns = _TABLES[name]
    cells = [[header for header, _ in columns]]
    cells += [[value(entry) for _, value in columns] for entry in _entries(name, results)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rule = [f"{'-' * (width - 1)}:" for width in widths]
    return "\n".join(
        "| " + " | ".join(map(str.rjust, row, widths)) + " |"
        for row in (cells[0], rule, *cells[1:])
    )


def _entries(name: str, results: Sequence[Any]) -> Sequence[Any]:
    """What the rows are of: the results, or for figure 1 the groups of all steps."""
    if name != "1":
        return results
    return [(step, group) for step in results for group in step.paths]


def renewed(page: str, tables: Mapping[str, str]) -> str:
    """A page with these tables in the places of the old ones; other figures' tables stay.

    The place of figure 2's table is between `<!-- figure 2 -->` and `<!-- end of figure 2 -->`.
    ValueError for a place without an end, or of a figure that there is not.
    """
    for name in _PLACE.findall(page):
        if name not in _TABLES:
            raise ValueError(f"there is no figure {name}")
        if f"<!-- end of figure {name} -->" not in page:
            raise ValueError(f"the place of figure {name} has no end")
    for name, rows_of in tables.items():
        start, end = f"<!-- figure {name} -->", f"<!-- end of figure {name} -->"
        before, marker, rest = page.partition(start)
        if marker:
            page = f"{before}{start}\n{rows_of}\n{end}{rest.partition(end)[2]}"
    return page


def _number(field: str, digits: int = 0) -> Callable[[Any], str]:
    return lambda result: f"{getattr(result, field):,.{digits}f}"


def _spread(field: str, digits: int = 1) -> Callable[[Any], str]:
    def shown(result: Any) -> str:
        measured = getattr(result, field)
        low, high = (f"{value:.{digits}f}" for value in (measured.p10, measured.p90))
        return f"{measured.mean:.{digits}f} ({low} to {high})"

    return shown


def _both(mean: str, most: str) -> Callable[[Any], str]:
    return lambda result: f"{getattr(result, mean):.2f} / {getattr(result, most):.2f}"


def _pair(field: str, digits: int) -> Callable[[Any], str]:
    """A figure of the graph that was kept, and of the one made anew."""
    return lambda result: " / ".join(
        f"{getattr(graph, field):.{digits}f}" for graph in (result.kept, result.anew)
    )


def _paper_most(result: Any) -> str:
    return {8: "2.5", 64: "5"}.get(result.groups, "not given")


def _paper_nodes(result: Any) -> str:
    return "steeper" if result.at <= 20 else "more gradual"


def _paper_occupancy(result: Any) -> str:
    if result.at > 0.9:
        return "one"
    if result.at == 0.15:
        return "the peak"
    return "rising" if result.at < 0.15 else "falling"


def _passed(at: tuple[Any, str]) -> str:
    """A path as the figure has it: sequencers that only pass messages on in brackets."""
    step, group = at
    numbers = step.numbering(group)
    return " ".join(name if name in numbers else f"({name})" for name in step.paths[group])


Column = tuple[str, Callable[[Any], str]]

_TABLES: dict[str, tuple[str, tuple[Column, ...]]] = {
    "1": (
        "Figure 1: groups come and go; sequencers on each path (those that only pass it on)",
        (
            ("step", lambda at: at[0].title),
            ("group", lambda at: at[1]),
            ("subscribers", lambda at: ", ".join(sorted(at[0].groups[at[1]]))),
            ("path", _passed),
        ),
    ),
    "2": (
        "Figure 2: latency stretch of 128 subscribers",
        (
            ("groups", _number("groups")),
            ("ratio of averages: mean", _number("mean", 2)),
            ("90 %", _number("p90", 2)),
            ("maximum", _number("most", 2)),
            ("paper, maximum", _paper_most),
            ("average of ratios: mean / maximum", _both("ratios_mean", "ratios_most")),
            ("1 ms apart or more", _both("apart_mean", "apart_most")),
            ("10 ms apart or more", _both("far_mean", "far_most")),
            ("single pairs, median", _number("pairs_median", 2)),
            ("held, share", lambda result: f"{100 * result.held:.2f} %"),
            ("nodes", _number("nodes", 1)),
        ),
    ),
    "3": (
        "Figure 3: sequencing nodes for 128 subscribers, mean (10 % to 90 %)",
        (
            ("groups", _number("at")),
            ("nodes", _spread("nodes")),
            ("double overlaps alone", _spread("paper_nodes")),
            ("paper, growth", _paper_nodes),
            ("passed by a message", _spread("hops")),
            ("double overlaps", _spread("overlaps", 0)),
            ("atoms", _spread("atoms", 0)),
        ),
    ),
    "4": (
        "Figure 4: 128 subscribers, 32 groups of any occupancy, mean (10 % to 90 %)",
        (
            ("occupancy", _number("at", 2)),
            ("nodes", _spread("nodes")),
            ("double overlaps alone", _spread("paper_nodes")),
            ("paper, nodes", _paper_occupancy),
            ("double overlaps", _spread("overlaps", 0)),
            ("atoms", _spread("atoms", 0)),
        ),
    ),
    "hosts": (
        "Fewer hosts, and groups of the nearest hosts",
        (
            ("hosts", _number("hosts")),
            ("groups", _number("groups")),
            ("members", lambda result: result.members),
            ("atoms", _number("atoms")),
            ("nodes", _number("nodes", 1)),
            ("passed, mean", _number("hops", 1)),
            ("busiest receiver", _number("receiver")),
            ("busiest node orders", _number("ordering")),
            ("sees", _number("passing")),
            ("central", _number("total")),
            ("direct, ms", _number("direct_ms")),
            ("stretch (mean / maximum)", _both("stretch", "stretch_most")),
        ),
    ),
    "trees": (
        "Lines and trees of atoms: what the busiest node sees, and nodes passed by a message",
        (
            ("groups", _number("groups")),
            ("central", _number("total")),
            ("any graph, at least", _number("unavoidable")),
            ("line as built: sees", _number("built_seen")),
            ("passed", _number("built_hops", 2)),
            ("nodes", _number("built_nodes", 1)),
            ("line that sees least: sees", _number("least_seen")),
            ("passed ", _number("least_hops", 2)),
            ("nodes ", _number("least_nodes", 1)),
            ("annealed tree: sees", _number("tree_seen")),
            ("passed  ", _number("tree_hops", 2)),
            ("nodes  ", _number("tree_nodes", 1)),
            ("a line", lambda result: f"{100 * result.lines:.0f} %"),
        ),
    ),
    "stamps": (
        "Numbers on a message, against a vector timestamp",
        (
            ("by", lambda result: result.by),
            ("at", lambda result: f"{result.at:g}"),
            ("collected, mean", _number("collected", 1)),
            ("needed by a receiver, mean", _number("needed", 1)),
            ("most", _number("most")),
            ("vector timestamp", _number("vector")),
        ),
    ),
    "load": (
        "Messages of the busiest, and latency stretch (mean / maximum) of ways to place nodes",
        (
            ("groups", _number("groups")),
            ("nodes", _number("nodes", 1)),
            ("receiver", _number("receiver")),
            ("node", _number("ordering")),
            ("node, transit too", _number("passing")),
            ("any graph, at least", _number("unavoidable")),
            ("node, dealt at random", _number("dealt_ordering")),
            ("central", _number("total")),
            ("limit kept", lambda result: f"{100 * result.limit_kept:.0f} %"),
            ("stretch, near", _both("near", "near_most")),
            ("central ", _both("central", "central_most")),
            ("random routers", _both("far", "far_most")),
            ("atoms alone", _both("alone", "alone_most")),
        ),
    ),
    "growth": (
        "Growth, groups after Zipf",
        (
            ("groups", _number("groups")),
            ("subscribers", _number("subscribers")),
            ("atoms", _number("atoms")),
            ("nodes", _number("nodes")),
            ("passed, mean", _number("hops", 1)),
            ("stamps", _number("collected", 1)),
            ("needed", _number("needed", 1)),
            ("busiest receiver", _number("receiver")),
            ("busiest node orders", _number("ordering")),
            ("sees", _number("passing")),
            ("of all", lambda result: f"{100 * result.passing / result.total:.1f} %"),
            ("central", _number("total")),
            ("stretch (mean / maximum)", _both("stretch", "stretch_most")),
        ),
    ),
    "changes": (
        "Joins and leaves one by one: the graph that was changed / one made anew",
        (
            ("groups", _number("groups")),
            ("changes", _number("changes")),
            ("nodes", _pair("nodes", 1)),
            ("passed, mean", _pair("hops", 2)),
            ("busiest node orders, of the limit", _pair("ordering", 2)),
            ("sees, of the limit", _pair("passing", 2)),
            ("stretch, mean", _pair("stretch", 2)),
            ("atoms begun for a change", _number("begun", 2)),
            ("ended", _number("ended", 2)),
            ("atoms that move if made anew", lambda result: f"{100 * result.moved:.0f} %"),
        ),
    ),
    "cost": (
        "Comparisons for one message to n peers, with m others in each of their queues",
        (
            ("order", lambda result: result.order),
            ("n", _number("destinations")),
            ("m", _number("length")),
            ("steps", _number("steps")),
            ("comparisons", _number("compared")),
            ("of one peer", lambda result: f"{result.compared / result.destinations:.1f}"),
        ),
    ),
}
