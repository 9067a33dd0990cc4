"""What can be seen of a SQL expression without Spark."""

from __future__ import annotations

import re

QUOTED = re.compile(
    r"""
      \b[rR](?: '[^']*' | "[^"]*" )     # raw: a backslash escapes nothing
    | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*"
    | `[^`]*`
    """,
    re.VERBOSE | re.DOTALL,
)
HEADER_BEGINS = re.compile(r"\bheader\s*\(", re.IGNORECASE)
HEADER = re.compile(r"header\(\s*'(?:[^'\\]|\\.)*'\s*\)")
PAIRS = {")": "(", "]": "["}


def sql_fault(expression: str) -> str | None:
    """What is wrong with a SQL expression, as far as it shows; None where nothing does.

    Looks for quotes and brackets that do not match, for several expressions, and for calls of
    ``header`` that the service would not find.
    """
    outside = QUOTED.sub(lambda quoted: " " * len(quoted.group()), expression)
    if re.search(r"""['"`]""", outside):
        return f"{expression!r} has a quote that does not end"
    if not _matched(outside):
        return f"{expression!r} has brackets that do not match"
    if ";" in outside:
        return f"{expression!r} is more than one expression; leave the semicolon out"
    for call in HEADER_BEGINS.finditer(outside):
        if not HEADER.match(expression, call.start()):
            return f"{expression!r}: write a header as header('name'), its name in single quotes"
    return None


def _matched(text: str) -> bool:
    opened: list[str] = []
    for character in text:
        if character in "([":
            opened.append(character)
        elif character in PAIRS and (not opened or opened.pop() != PAIRS[character]):
            return False
    return not opened
