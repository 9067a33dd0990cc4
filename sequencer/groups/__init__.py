"""Groups that share subscribers: two ways to one order.

`batch`: in the order of the batch, where every shard sees every message. `network`: on a network of
nodes, where overlaps are ordered and nothing else.
"""
