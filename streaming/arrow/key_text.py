r"""The forms of keys in JSON and on terminals.

JSON: text, or ``{"base64": …}`` if a key is not valid UTF-8. On a terminal, unprintable bytes
(``\xff``) and characters (``\u0085``) and the backslash are escaped: different keys look different,
and the shown text can be read back.
"""

from __future__ import annotations

import base64
import binascii
import re
import shlex
from typing import Any

from streaming.terminal import printable

SHORT = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"\\": b"\\"}
HEX = b"[0-9a-fA-F]"
ESCAPE = re.compile(rb"\\(?:([\\nrt])|x(%b{2})|u(%b{4})|U(%b{8})|)" % (HEX, HEX, HEX))


def key_to_json(key: bytes) -> str | dict[str, str]:
    """Return the key as text, or ``{"base64": …}``."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(key).decode()}


def key_from_json(value: Any) -> bytes:
    """Return the inverse of :func:`key_to_json`; ValueError with a reason if it has none.

    A key that is valid UTF-8 may be given either way.
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
        raise ValueError("is not valid Unicode") from None
    except (binascii.Error, ValueError):
        raise ValueError("is no base64") from None


def escaped(key: bytes) -> str:
    """Return a key as a terminal shows it; :func:`unescaped` reads it."""
    text = key.replace(b"\\", b"\\\\").decode(errors="backslashreplace")
    return printable(text, kept="")


def unescaped(text: str) -> bytes:
    """Return the inverse of :func:`escaped`; ValueError with a reason if it has none."""
    return ESCAPE.sub(_unescape, text.encode(errors="surrogateescape"))


def word(key: bytes) -> str:
    """Return a key for a shell: :func:`escaped`, in quotes if a shell needs them."""
    return shlex.quote(escaped(key))


def word_of(value: Any) -> str:
    """Return :func:`word` of a key in the form of :func:`key_to_json`."""
    return word(key_from_json(value))


def _unescape(found: re.Match[bytes]) -> bytes:
    short, byte, *characters = found.groups()
    if short is not None:
        return SHORT[short]
    if byte is not None:
        return bytes.fromhex(byte.decode())
    code = next((int(each, 16) for each in characters if each is not None), None)
    if code is None:
        raise ValueError(r"has a backslash that begins no \xNN, \uNNNN or \\; write \\ for one")
    try:
        return chr(code).encode()
    except (ValueError, OverflowError):
        raise ValueError(f"has {found.group().decode()}, which is not a character") from None
