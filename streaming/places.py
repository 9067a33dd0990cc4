"""Where records lie in topics, and where deliveries stand in their key's stream."""

from __future__ import annotations

TopicPartition = tuple[str, int]
"""A topic's name, and the number of one of its partitions."""

Place = tuple[str, int, int]
"""A record's topic, partition and offset."""

StreamPoint = tuple[int, int]
"""A delivery's incarnation and sequence."""
