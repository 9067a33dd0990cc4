"""Keys as JSON has them: text, or ``{"base64": …}`` where they are no UTF-8."""

from __future__ import annotations

import base64
import binascii
from typing import Any


def key_to_json(key: bytes) -> str | dict[str, str]:
    """The key as text, or ``{"base64": …}``."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(key).decode()}


def key_from_json(value: Any) -> bytes:
    """The bytes that :func:`key_to_json` was given. ValueError, which says why, where it is none.

    A key that is UTF-8 may be given either way.
    """
    if isinstance(value, dict) and value.keys() == {"base64"}:
        value, form = value["base64"], "base64"
    else:
        form = "text"
    if not isinstance(value, str):
        raise ValueError('is neither text nor {"base64": "…"}')  # noqa: TRY004  (a user's value)
    try:
        return value.encode() if form == "text" else base64.b64decode(value, validate=True)
    except UnicodeEncodeError:
        raise ValueError("is no valid Unicode") from None
    except (binascii.Error, ValueError):
        raise ValueError("is no base64") from None
