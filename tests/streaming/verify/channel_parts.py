"""Records of channels as topics give them, one by one."""

import json
import random

from streaming.verify.channel_parts import Feed
from streaming.verify.records import Record


def feed_of(material):
    """The records as topics give them: partitions' records between each other's."""
    events = [
        Record("events", 0, n, 0, None, json.dumps(each).encode(), ())
        for n, each in enumerate(material.events)
    ]
    outputs = sorted(material.outputs, key=lambda each: random.Random(each.partition).random())
    return Feed(
        iter(outputs),
        iter(material.rejects),
        iter(events),
        iter(material.commands),
        iter(material.wanted),
        iter(material.inputs),
    )
