"""Groups and their overlaps as a picture; docs/groups-graph.md says how to read it.

`overlaps` draws groups that the micro-batch orders, `svg` those on a network of nodes; `lanes` and
`charts` are what the console shows, and need nothing of groups.
"""
