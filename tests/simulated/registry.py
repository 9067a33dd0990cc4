"""A schema registry: away at times, and one schema is registered only later."""

from __future__ import annotations

import json
import struct

from streaming.errors import RegistryUnavailable
from streaming.settings.fields import AVRO, ValueField
from tests.simulated.world import current, wait

LABEL = ValueField(AVRO, "seq", ("seq",))
FIELDS = {1: ("seq", "rest"), 2: ("rest",), 3: ("rest", "seq")}
"""The fields of each schema; there is none with the number 4."""
LATER = 3
NUMBERS = (1, 1, 1, 1, 2, 3, 3, 4)
"""What values are written with; one of them."""
KINDS = {"seq": "long", "rest": "string"}


class Registry:
    """What stands in for `streaming.kafka.registry.Registry`; ``later_s``: when it knows them all.

    It is away ``away_s`` seconds from the beginning on.
    """

    addresses = "simulated"

    def __init__(self, world, later_s, away_s):
        self.world, self.later_s, self.away_s = world, later_s, away_s

    def schema(self, number):
        """Return the answer; None for a number that it does not know."""
        if self.world.now < self.away_s:
            raise RegistryUnavailable("The registry is away.")
        if number not in FIELDS or (number == LATER and self.world.now < self.later_s):
            return None
        fields = [{"name": name, "type": KINDS[name]} for name in FIELDS[number]]
        return {"schema": json.dumps({"type": "record", "name": "R", "fields": fields})}

    def references(self, _answer):
        """None has any."""
        return {}


class Stopping:
    """What stands in for the event that a service is to stop: it is not."""

    def is_set(self):
        """Whether it is."""
        return False

    def wait(self, seconds):
        """Wait for it."""
        until = current().process.world.now + seconds
        while current().process.world.now < until:
            wait(until - current().process.world.now)


def framed(rng, label, value):
    """A value that has the label in a field, where its schema has one."""
    number = rng.choice(NUMBERS)
    has = {"seq": varint(2 * label), "rest": varint(2 * len(value)) + value}
    fields = FIELDS.get(number, ("rest",))
    return struct.pack(">bi", 0, number) + b"".join(has[name] for name in fields)


def varint(number):
    """A number in groups of 7 bits, the lowest first."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
