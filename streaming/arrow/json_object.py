"""JSON objects in records that anybody may have written."""

from __future__ import annotations

import json
from typing import Any


def object_in(value: bytes | None) -> dict[str, Any] | None:
    """Return the JSON object that a value holds; None if it holds none."""
    try:
        found = json.loads(value or b"")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
