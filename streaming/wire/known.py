"""Brokers that this process knows, for when no listed address leads to their cluster any more."""

from __future__ import annotations

import json
from dataclasses import dataclass

GIVEN_MAX = 5
"""The most brokers that another process is given."""

CLUSTERS_MAX = 64
"""If brokers of more lists of addresses than these are known, all are forgotten."""

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class KnownBrokers:
    """The brokers of the cluster that some listed addresses led to."""

    cluster_id: str | None
    addresses: tuple[Address, ...]


_known: dict[str, KnownBrokers] = {}
"""By the listed addresses. Every thread of this process puts whole values here."""


def brokers_of(listed: str) -> KnownBrokers | None:
    """Return the known brokers of the cluster that ``listed`` led to."""
    return _known.get(listed)


def keep(listed: str, brokers: KnownBrokers) -> None:
    """Replace the brokers of ``listed``: its addresses may lead to another cluster than before."""
    if listed not in _known and len(_known) >= CLUSTERS_MAX:
        _known.clear()
    _known[listed] = brokers


def renew(listed: str, brokers: KnownBrokers) -> None:
    """Replace the brokers of ``listed``, unless these are another cluster's.

    A broker's host may belong to one by now, and must not lead there.
    """
    known = _known.get(listed)
    if known is None or known.cluster_id == brokers.cluster_id:
        keep(listed, brokers)


def text_of(listed: str) -> str:
    """Return the brokers of ``listed`` for another process (:func:`learn`); "" for none."""
    known = _known.get(listed)
    if known is None:
        return ""
    return json.dumps([known.cluster_id, sorted(known.addresses)[:GIVEN_MAX]])


def learn(listed: str, text: str) -> None:
    """Take over what another process knew, if this one knows no brokers of ``listed`` yet."""
    if text and listed not in _known:
        cluster_id, addresses = json.loads(text)
        keep(listed, KnownBrokers(cluster_id, tuple((host, port) for host, port in addresses)))
