"""The actors of "In-Order Message Delivery": label proxy, ordered proxy, a net that delays.

`system` the world they live in, `ordered` their behaviours.
"""

from sequencer.actors.ordered import (
    forward_beh,
    net_beh,
    ordered_delay_beh,
    ordered_label_beh,
    ordered_proxy_beh,
    ordered_root_beh,
    sink_beh,
    src_beh,
)
from sequencer.actors.system import Actor, Me, System

__all__ = [
    "Actor",
    "Me",
    "System",
    "forward_beh",
    "net_beh",
    "ordered_delay_beh",
    "ordered_label_beh",
    "ordered_proxy_beh",
    "ordered_root_beh",
    "sink_beh",
    "src_beh",
]
