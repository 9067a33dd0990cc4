"""Ordering protocols: pure Python, no Spark, no Kafka, no clock, no I/O.

The front door: the names that most users want, each loaded when it is first asked for, so that
`import sequencer` is cheap. The rooms have more.

- Channels: `labels`, `proxy` (in process), `channels` (many at once); the text's `actors`.
- What is there of a topic: `availability`.
- Groups that share subscribers: `groups` (`network`: atoms on nodes; `batch`: the batch's order).
- Multicast by clocks or by a counter: `multicast`; tried out by `checking`.
- What must hold of deliveries: `judging`. The group protocol in a simulated network: `simulation`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sequencer.availability import Availability, LocalBroker
    from sequencer.custom_labels import CustomLabels
    from sequencer.groups.network.graph import Graph
    from sequencer.groups.network.membership import GroupIngress, Subscriber, Views
    from sequencer.groups.network.ordering import Atom, Ingress, Receiver
    from sequencer.groups.network.overlaps import Overlap, double_overlaps
    from sequencer.groups.network.shard import GroupShard
    from sequencer.labels import CyclicLabels, LinearLabels
    from sequencer.multicast import ClockBus, ClockQueue, CounterBus, CounterQueue
    from sequencer.proxy import LabelProxy, OrderedProxy

__all__ = [
    "Atom",
    "Availability",
    "ClockBus",
    "ClockQueue",
    "CounterBus",
    "CounterQueue",
    "CustomLabels",
    "CyclicLabels",
    "Graph",
    "GroupIngress",
    "GroupShard",
    "Ingress",
    "LabelProxy",
    "LinearLabels",
    "LocalBroker",
    "OrderedProxy",
    "Overlap",
    "Receiver",
    "Subscriber",
    "Views",
    "double_overlaps",
]

_HOMES = {
    "Atom": "sequencer.groups.network.ordering",
    "Availability": "sequencer.availability",
    "ClockBus": "sequencer.multicast",
    "ClockQueue": "sequencer.multicast",
    "CounterBus": "sequencer.multicast",
    "CounterQueue": "sequencer.multicast",
    "CustomLabels": "sequencer.custom_labels",
    "CyclicLabels": "sequencer.labels",
    "Graph": "sequencer.groups.network.graph",
    "GroupIngress": "sequencer.groups.network.membership",
    "GroupShard": "sequencer.groups.network.shard",
    "Ingress": "sequencer.groups.network.ordering",
    "LabelProxy": "sequencer.proxy",
    "LinearLabels": "sequencer.labels",
    "LocalBroker": "sequencer.availability",
    "OrderedProxy": "sequencer.proxy",
    "Overlap": "sequencer.groups.network.overlaps",
    "Receiver": "sequencer.groups.network.ordering",
    "Subscriber": "sequencer.groups.network.membership",
    "Views": "sequencer.groups.network.membership",
    "double_overlaps": "sequencer.groups.network.overlaps",
}


def __getattr__(name: str) -> Any:
    """Load a name from its home, once."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """What is there, loaded or not."""
    return sorted({*globals(), *__all__})
