"""A pipeline whose rejects are sent back; they are written as the service writes them."""

from streaming.resending import ledger
from tests.kafka_helpers import Record, create_topics, produce, read_all, wait_for_records
from tests.service_helpers import called_json, channel_topics, write_config

NOW = 1_790_000_000_000
FAR = 1_000


def reject(topic, number, reason="late", *, key=b"k", partition=0, headers=(), offset=None):
    """What the service writes for a record with this value; by default from far behind."""
    offset = FAR + number if offset is None else offset
    added = {"reason": reason, "topic": topic, "partition": partition, "offset": offset}
    return Record(
        key,
        b"%d" % number,
        [*headers, *((f"reject-{name}", str(told).encode()) for name, told in added.items())],
        timestamp=NOW + number,
    )


class Place:
    """A pipeline's topics with rejects in them, and the command to send them back."""

    def __init__(self, broker, prefix, folder):
        self.address = broker.bootstrap
        self.topics = channel_topics(prefix)
        self.input, self.rejects = self.topics["input"], self.topics["rejects"]
        self.ledger = f"{self.rejects}.resent"
        create_topics(self.address, {self.input: 3, self.rejects: 2})
        self.config = write_config(folder, self.address, {"p": self.topics})

    def write(self, *records):
        produce(self.address, self.rejects, list(records))

    def resend(self, *words):
        return called_json("resend", self.config, *words)

    def values(self, topic=None, count=0):
        """Of committed records, of which this many are to come: their markers may be late."""
        wait_for_records(self.address, topic or self.input, count)
        return [int(each.value) for each in read_all(self.address, topic or self.input)]

    def noted(self):
        return sorted(each.key.decode() for each in self.notes())

    def notes(self):
        """But for where runs begin."""
        return [each for each in read_all(self.address, self.ledger) if each.key != ledger.RUN]
