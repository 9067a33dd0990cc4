"""The sequencing graph of groups as a picture; docs/groups-graph.md tells how to read it."""

from streaming.graph.svg import draw, drawn, summary

__all__ = ["draw", "drawn", "summary"]
