"""What sources of the tests read."""

from streaming.arrow.pack import PACKED
from streaming.arrow.schemas import RECORD
from streaming.disciplines.source import Limits, Reading


def reading_of(topic, limits=None, tasks=1, keys=()):
    """All of a topic, record by record."""
    return Reading({topic: 0}, RECORD, lambda table: table, PACKED, tasks, limits or Limits(), keys)
