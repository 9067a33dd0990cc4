"""Groups that share subscribers, ordered at the overlaps and nowhere else.

After "Decentralized Message Ordering for Publish/Subscribe Systems" (Lumezanu, Spring,
Bhattacharjee); docs/overlaps.md says where this goes beyond the paper.
"""
