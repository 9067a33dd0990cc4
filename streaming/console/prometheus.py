"""History from a Prometheus that scrapes the service: what was before the console was started."""

from __future__ import annotations

import json
import threading
import time
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any

SECONDS_MAX = 2.0
BYTES_MAX = 4_000_000
POINTS = 120
KEPT_SECONDS = 15
"""How long an answer counts as new: several people may look at a page that refreshes itself."""
ENTRIES_MAX = 200
QUERIES = {
    "in": "sum(rate(sequencer_records_in_total{%s}[%ds]))",
    "out": "sum(rate(sequencer_records_delivered_total{%s}[%ds]))",
    "held": "sum(max_over_time(sequencer_held_records{%s}[%ds]))",
}


@dataclass
class Prometheus:
    """One server, asked over HTTP; ``address``: http://HOST:PORT, perhaps with a path.

    Request threads share ``_kept``, under ``_lock``; nobody waits for the server with it.
    """

    address: str
    _kept: dict[tuple[str, str, str, int], tuple[float, list[float] | None]] = field(
        default_factory=dict
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def history(self, service: str, pipeline: str, kind: str, seconds: int) -> list[float] | None:
        """Return a figure over the last ``seconds``, oldest first; None where it does not answer.

        ``kind``: "in" and "out" in records a second, "held" in records.
        """
        asked = (service, pipeline, kind, seconds)
        with self._lock:
            at, values = self._kept.get(asked, (float("-inf"), None))
            if time.monotonic() - at < KEPT_SECONDS:
                return values
        values = self._ask(*asked)
        with self._lock:
            if len(self._kept) >= ENTRIES_MAX:
                self._kept.clear()
            self._kept[asked] = (time.monotonic(), values)
        return values

    def _ask(self, service: str, pipeline: str, kind: str, seconds: int) -> list[float] | None:
        step = max(1, seconds // POINTS)
        labels = f"service={json.dumps(service)},pipeline={json.dumps(pipeline)}"
        now = time.time()
        words = {
            "query": QUERIES[kind] % (labels, max(30, 2 * step)),
            "start": f"{now - seconds:.0f}",
            "end": f"{now:.0f}",
            "step": str(step),
        }
        address = f"{self.address.rstrip('/')}/api/v1/query_range?{urllib.parse.urlencode(words)}"
        try:
            with urllib.request.urlopen(address, timeout=SECONDS_MAX) as answer:  # noqa: S310
                found: dict[str, Any] = json.loads(answer.read(BYTES_MAX))
            series = found["data"]["result"]
            return [float(value) for _, value in series[0]["values"]] if series else []
        except (OSError, ValueError, KeyError, TypeError, IndexError, HTTPException):
            return None
