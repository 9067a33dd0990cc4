"""What can be seen of a SQL expression without Spark."""

from __future__ import annotations

import re

from streaming.settings.fields import ValueField

QUOTED = re.compile(
    r"""
      \b[rR](?: '[^']*' | "[^"]*" )     # raw: a backslash escapes nothing
    | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*"
    | `[^`]*`
    """,
    re.VERBOSE | re.DOTALL,
)
NAMES = re.compile(r"(?:[^\W\d]\w*|`[^`]+`)(?:\s*\.\s*(?:[^\W\d]\w*|`[^`]+`))*")
"""A column, or a field in one."""
COLUMNS = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
)
"""What expressions may name: the columns of Spark's own Kafka source (`arrow.kafka_rows`)."""
CONSTANTS = (
    *("null", "true", "false", "user", "current_user", "session_user"),
    *("current_date", "current_time", "current_timestamp", "localtimestamp"),
)
"""Names that Spark knows without a column, nor brackets."""
HEADER_BEGINS = re.compile(r"\bheader\s*\(", re.IGNORECASE)
HEADER = re.compile(r"header\(\s*'(?:[^'\\]|\\.)*'\s*\)")
UNREPEATABLE = re.compile(
    r"""\b( uuid | rand | random | randn | randstr | uniform | shuffle | spark_partition_id
    | monotonically_increasing_id )\s*\(""",
    re.VERBOSE | re.IGNORECASE,
)
"""Functions of Spark that give something else when a batch is repeated."""
PAIRS = {")": "(", "]": "["}
HEADER_CALL = re.compile(r"\bheader\(\s*'((?:[^'\\]|\\.)*)'\s*\)")
HEADER_SQL = (
    "nvl2(element_at(filter(headers, h -> h.key = '{0}'), -1), "
    "coalesce(cast(element_at(filter(headers, h -> h.key = '{0}'), -1).value as string), {1}), "
    "cast(null as string))"
)
"""Text of the last header; null where there is none, {1} where its value is null."""


def sql_fault(expression: str) -> str | None:
    """What is wrong with a SQL expression, as far as it shows; None where nothing does.

    Looks for quotes and brackets that do not match, for several expressions, for functions that
    give something else each time, for calls of ``header`` that the service would not find, and for
    a name alone that is no column.
    """
    outside = QUOTED.sub(lambda quoted: " " * len(quoted.group()), expression)
    if re.search(r"""['"`]""", outside):
        return f"{expression!r} has a quote that does not end"
    if not _matched(outside):
        return f"{expression!r} has brackets that do not match"
    if ";" in outside:
        return f"{expression!r} is more than one expression; leave the semicolon out"
    if call := UNREPEATABLE.search(outside):
        return f"{expression!r}: {call[1]} gives something else when a batch is repeated"
    for call in HEADER_BEGINS.finditer(outside):
        if not HEADER.match(expression, call.start()):
            return f"{expression!r}: write a header as header('name'), its name in single quotes"
    return _name_fault(expression.strip())


def _name_fault(expression: str) -> str | None:
    """What is wrong where all of an expression is a name; Spark ignores case."""
    while expression[:1] == "(" and expression[-1:] == ")":
        expression = expression[1:-1].strip()
    if not NAMES.fullmatch(expression):
        return None
    names = [name.strip(" \t\r\n`") for name in re.findall(r"`[^`]+`|[^.`]+", expression)]
    known = [name.lower() for name in (*COLUMNS, *CONSTANTS)]
    if names[0].lower() in known:
        return None
    path = ".".join(names) if all(re.fullmatch(r"\w+", name) for name in names) else "name"
    return (
        f"{names[0]!r} is no column of a record; write header('{path}') for that header, "
        f'{{ json = "$.{path}" }} for a field of the value, or a SQL expression over '
        f"{', '.join(COLUMNS)}"
    )


def _matched(text: str) -> bool:
    opened: list[str] = []
    for character in text:
        if character in "([":
            opened.append(character)
        elif character in PAIRS and (not opened or opened.pop() != PAIRS[character]):
            return False
    return not opened


def header_name(expression: str | ValueField) -> str | None:
    """The header's name where the expression is just ``header('name')``."""
    if isinstance(expression, ValueField):
        return None
    match = HEADER_CALL.fullmatch(expression.strip())
    return match.group(1) if match else None


def has_expressions(channel: str | ValueField, label: str | ValueField) -> bool:
    """Whether Spark has to evaluate something: all but the key, a label header, and fields."""
    is_sql = isinstance(label, str) and header_name(label) is None
    return is_sql or (isinstance(channel, str) and channel != "key")


def has_sql(channel: str | ValueField, label: str | ValueField) -> bool:
    """Whether only Spark can work them out: other expressions than the key and one header."""
    given = [each for each in (channel, label) if isinstance(each, str)]
    return any(each != "key" and header_name(each) is None for each in given) or label == "key"


def expand_headers(expression: str, null: str = "''") -> str:
    """The SQL expression with every ``header('name')`` written out.

    ``null``: what a header with a null value is. Of a label that is another fault than no header.
    """
    return HEADER_CALL.sub(lambda call: HEADER_SQL.format(call.group(1), null), expression)
