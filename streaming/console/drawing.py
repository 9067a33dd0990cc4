"""The picture of a pipeline's groups, as `sequencer graph --running` draws it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sequencer.groups.network.overview import overview
from streaming.config import Config
from streaming.console.values import encoded_key
from streaming.graph import overlaps, svg
from streaming.verify import current


def groups(config: Config, name: str, members: Mapping[str, Collection[str]]) -> str:
    """Draw these groups: overlaps with their next numbers, or paths over nodes with their load.

    The load is that of one message to each group: what was sent is not counted here. A group leads
    to its page.
    """

    def page_of(group: str) -> str:
        return f"/p/{name}/group/{encoded_key(group)}"

    pipeline = config.pipelines[name]
    if pipeline.sequencing == "batch":
        title, numbers = f"{name}: groups and overlaps", current.numbers(config, name)
        return overlaps.draw_overlaps(members, None, title, numbers, page_of)
    view = overview(members, pipeline.sequencing_nodes)
    return svg.drawn(view, f"{name}: groups, atoms and sequencing nodes", page_of)
