"""What leaders say of topics, in few words."""

from streaming.wire.bounds import BoundsReader


def offsets(brokers, topics, which):
    """First or last offsets, by topic and partition."""
    found = BoundsReader(brokers, topics)(which)
    return {
        topic: {partition: bound.offset for partition, bound in of.items()}
        for topic, of in found.items()
    }
