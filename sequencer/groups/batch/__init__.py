"""Groups in the order of the batch: every shard counts all numbers by itself.

`directory` the groups, `circles` who is in which, `numbers` of messages, `subscribers` what is
counted of them, `overlaps` where their numbers begin, `stamps` the same as text, `shard` all of it
for one shard.
"""
