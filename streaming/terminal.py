r"""Texts as terminals may show them: nothing in them moves the cursor or changes a colour."""

from __future__ import annotations

import json
import os
from typing import Any, Literal

SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def printable(text: str, kept: str = "\n") -> str:
    r"""Return the text with escapes, as ``\x1b``, for what cannot be printed, but for ``kept``."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in kept else escape(each) for each in text)


def escape(character: str) -> str:
    r"""Return ``\n`` and the like, ``\xNN`` below 128, ``\uNNNN`` or ``\UNNNNNNNN`` for others."""
    if character in SHORT:
        return SHORT[character]
    code = ord(character)
    if code < 128:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 2**16 else f"\\U{code:08x}"


def printable_json(value: Any) -> str:
    r"""Return a value as JSON, with escapes, as ``\u009b``, for what cannot be printed."""
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def color_system() -> Literal["auto"] | None:
    """Return what rich's consoles may use: neither colours nor bold with NO_COLOR.

    A dumb terminal gets none by itself.
    """
    return None if os.environ.get("NO_COLOR") else "auto"
