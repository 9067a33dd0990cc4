"""Random histories as records to produce."""

import time

from tests.kafka_helpers import Record

NOW = int(time.time() * 1000)  # Kafka deletes records with old timestamps


def written(world, topic):
    """What users wrote to a topic of the world, as records to produce, with their partitions."""
    return [
        Record(r.key, r.value, list(r.headers), partition, NOW + r.timestamp)
        for (name, partition), there in sorted(world.topics.records.items())
        if name == topic
        for r in there
    ]
