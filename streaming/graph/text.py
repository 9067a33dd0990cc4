"""Names and numbers as a picture can show them: printable, cut, and about so wide."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection

CHARACTER, BOLD = 6.8, 1.15
"""A generous mean width in text of 11 units, and how much wider bold text is."""
BROAD = frozenset("MW@%mw\N{HORIZONTAL ELLIPSIS}")
NAMES_MAX = 40
TITLE_NAME_MAX = 300


def printable(text: str) -> str:
    r"""The text with escapes, as ``\x00``, for all that XML forbids or a reader would not see.

    These are control characters, lone surrogates, marks that turn the direction of the text, and
    unusual blanks: different names stay different.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def cut(text: str, characters_max: int) -> str:
    """The text, printable; where it is longer, its beginning and "…"."""
    shown = printable(text[: characters_max + 1])
    if len(text) <= characters_max and _cells(shown) <= characters_max:
        return shown
    while _cells(shown) >= characters_max:
        shown = shown[:-1]
    return shown + "…"


def width(text: str, *, bold: bool = False) -> float:
    """About how wide a text of 11 units is."""
    return _cells(text) * CHARACTER * (BOLD if bold else 1.0)


def count(number: float) -> str:
    """A number of messages."""
    return f"{number:,.0f}"


def counted(number: float, what: str) -> str:
    """A number and its noun: 1 node, 2 nodes."""
    return f"{count(number)} {what}{'' if number == 1 else 's'}"


def listed(names: Collection[str]) -> str:
    """Names, whole, for a hover title; of very many the first ones."""
    shown = [cut(name, TITLE_NAME_MAX) for name in list(names)[:NAMES_MAX]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _cells(text: str) -> float:
    """The width in mean characters; East Asian ones take two."""
    return sum(
        2 if unicodedata.east_asian_width(character) in "WF" else 1.55 if character in BROAD else 1
        for character in text
    )
