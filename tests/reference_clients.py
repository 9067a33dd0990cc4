"""The clients in docs/reference.md: their arguments, and what their docstrings say first."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any

from streaming import clients

BETWEEN = {"assigned", "committed", "lost", "positions", "require_below", "revoked"}
"""Methods that clients call of each other."""
MADE_BY_OTHERS = {"Barrier", "ParallelConsumer"}
FIRST_FIELDS = {"first_s", "buffer_records"}
"""Of the dataclasses that users make themselves."""

WHOLE = re.compile(r":(?:meth|attr|func):`([^`]*)`")


def clients_section() -> str:
    """All public names of `streaming.clients`, in the order of the alphabet."""
    return "\n\n".join(described(getattr(clients, name)) for name in sorted(clients.__all__))


def described(kind: type[Any]) -> str:
    """A class: its first paragraph, its arguments and fields, its methods and attributes."""
    parts = [f"### {kind.__name__}", first(kind)]
    names = list(inspect.signature(kind).parameters)
    is_given = is_dataclass(kind) and names[0] not in FIRST_FIELDS
    if kind.__name__ in MADE_BY_OTHERS:
        pass
    elif is_given:
        parts.append(f"Fields: {', '.join(f'`{name}`' for name in names)}.")
    else:
        head = ["| argument | type | default |", "| --- | --- | --- |"]
        parts.append("\n".join([*head, *rows_of_arguments(kind)]))
    methods = list(rows_of_methods(kind))
    if methods:
        parts.append("\n".join(["| | |", "| --- | --- |", *methods]))
    return "\n\n".join(parts)


def first(thing: Any) -> str:
    """The first paragraph of a docstring, on one line, as Markdown has it."""
    paragraph = (inspect.getdoc(thing) or "").split("\n\n")[0]
    return WHOLE.sub(r"`\1`", " ".join(paragraph.split())).replace("``", "`")


def rows_of_arguments(kind: type[Any]) -> Iterator[str]:
    for each in inspect.signature(kind).parameters.values():
        fallback = "required"
        if each.default is not inspect.Parameter.empty:
            fallback = f"`{written(each.default)}`"
        yield f"| `{each.name}` | `{cell(each.annotation)}` | {fallback} |"


def written(value: Any) -> str:
    """A default as one writes it."""
    return repr(value) if isinstance(value, str | int | float | tuple | None) else "…"


def cell(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "Any")
    return text.replace("|", "\\|")


def rows_of_methods(kind: type[Any]) -> Iterator[str]:
    """Public methods and properties that the class, or a class of ours below it, has."""
    ours = [each for each in kind.__mro__ if each.__module__.startswith("streaming.")]
    found = {name: thing for each in reversed(ours) for name, thing in vars(each).items()}
    for name, thing in found.items():
        if name.startswith("_") or name in BETWEEN or not inspect.getdoc(thing):
            continue
        if isinstance(thing, property):
            yield f"| `{name}` | {first(thing)} |"
        elif inspect.isfunction(thing):
            yield f"| `{name}({', '.join(arguments(thing))})` | {first(thing)} |"


def arguments(function: Any) -> Iterator[str]:
    keywords_only = False
    for name, each in list(inspect.signature(function).parameters.items())[1:]:
        keywords_only = keywords_only or each.kind is each.VAR_POSITIONAL
        if each.kind is each.KEYWORD_ONLY and not keywords_only:
            keywords_only = True
            yield "*"
        given = each.default is not inspect.Parameter.empty
        stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        yield f"{name}={written(each.default)}" if given else f"{stars}{name}"
