"""All faults by name, and which of them a run takes."""

import random

from streaming.kafka.embedded import EmbeddedBroker
from tests.chaos import answers, brokers, clocks, files, network, processes, rights, topics

GROUPS = {
    "processes": processes.FAULTS,
    "network": network.FAULTS,
    "brokers": brokers.FAULTS,
    "answers": answers.FAULTS,
    "rights": rights.FAULTS,
    "topics": topics.FAULTS,
    "files": files.FAULTS,
    "clocks": clocks.FAULTS,
}
FAULTS = {fault.name: fault for group in GROUPS.values() for fault in group}


def sample(names, times, seed):
    """The faults, each so many times, in an order that the seed decides."""
    some = [name for name in names for _ in range(times)]
    random.Random(seed).shuffle(some)
    return [FAULTS[name] for name in some]


def short(seconds_max):
    """Names of those that do not last longer, and that every machine and a single broker can do."""
    return [
        name
        for name, fault in FAULTS.items()
        if fault.seconds <= seconds_max and fault.kafka is EmbeddedBroker and not fault.needs
    ]


def kafka_for(faults):
    """What has to be started for all of these; ValueError where nothing is enough."""
    kinds = {fault.kafka for fault in faults} - {EmbeddedBroker} or {EmbeddedBroker}
    if len(kinds) > 1:
        raise ValueError(f"not in one run: {', '.join(kind.__name__ for kind in kinds)}")
    properties = {name: text for fault in faults for name, text in fault.properties.items()}
    return kinds.pop()(properties=properties)
