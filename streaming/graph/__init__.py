"""Groups and their overlaps as a picture; docs/groups-graph.md tells how to read it."""

from streaming.graph.overlaps import draw_overlaps, sizes
from streaming.graph.svg import draw, drawn, summary

__all__ = ["draw", "draw_overlaps", "drawn", "sizes", "summary"]
