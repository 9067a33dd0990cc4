"""Groups that share subscribers, ordered at the overlaps and nowhere else.

After "Decentralized Message Ordering for Publish/Subscribe Systems" (Lumezanu, Spring,
Bhattacharjee); docs/overlaps.md says where this goes beyond the paper.

- Which overlaps, and the graph: `overlaps`, `parts`, `graph`, `lines`, `arrangement`, `bags`,
  `cuts`, `placement`, `rates`, `overview`.
- The protocol by message, as the simulation runs it: `ordering`, `membership`, `atoms`, `links`,
  and `nearness` for its nodes.
- The protocol by batch, as the service's `network` runs it: `routes`, `tables`, `hops`,
  `receivers`, `shard`.
"""
