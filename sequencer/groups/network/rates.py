"""How many messages groups and receivers get: the limit of load of a node.

"Decentralized Message Ordering for Publish/Subscribe Systems", section 3.3: no node orders more
messages than the busiest receiver gets.
"""

from __future__ import annotations

from collections.abc import Mapping

from sequencer.groups.network.overlaps import Membership

Rates = Mapping[str, float]


def checked_rates(groups: Membership, rates: Rates | None) -> Rates:
    """The rates, 1 for each group if not given; ValueError if one is missing or below 0."""
    if rates is None:
        return dict.fromkeys(groups, 1.0)
    wrong = sorted(name for name in groups if not 0 <= rates.get(name, -1) < float("inf"))
    if wrong:
        raise ValueError(f"no rate of 0 or more for {', '.join(wrong)}: give one for each group")
    return rates


def busiest(groups: Membership, rates: Rates) -> tuple[str, float]:
    """The receiver with the most messages, and how many; the first by name of several."""
    received: dict[str, float] = {}
    for group in sorted(groups):
        for member in set(groups[group]):
            received[member] = received.get(member, 0) + rates[group]
    if not received:
        return "", 0.0
    return min(received.items(), key=lambda item: (-item[1], item[0]))
