"""Pydantic's errors in the words of the configuration file."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from streaming.disciplines.channels.labels import LABEL_KINDS
from streaming.settings.values import key_path

MARKS = ("[key]", "[time]", "[table]")
"""Members of unions in pydantic's locations."""
SENTENCES = {
    "missing": "is missing; it has no default",
    "int_type": "must be a whole number, without quotes",
    "bool_type": "must be true or false, without quotes",
    "string_type": "must be text in quotes",
    "tuple_type": 'must be a list; write for instance ["a", "b"]',
    "dict_type": "must be a table; write {{ key = value }}",
    "model_type": "must be a table; write {{ key = value }}",
    "model_attributes_type": "must be a table; write {{ key = value }}",
    "too_short": "must not be empty; name one or more",
    "too_long": "has {actual_length}; write at most {max_length}",
    "string_too_short": "must not be empty",
    "string_too_long": "is too long; write at most {max_length} characters",
    "greater_than_equal": "must be {ge} or more",
    "less_than_equal": "must be {le} or less",
}


def explain(error: ValidationError, model: type[BaseModel], path: list[str]) -> list[str]:
    """A line for each fault of the table at ``path``: key, what is wrong, what to write."""
    faults = error.errors()
    return [
        _line(fault, model, path)
        for fault in faults
        # A list whose every element is at fault looks empty afterwards.
        if not (fault["type"] == "too_short" and any(_below(other, fault) for other in faults))
    ]


def unknown(key: str, known: Iterable[str], path: list[Any]) -> str:
    """The line for a key that is none of ``known``."""
    known = sorted(known)
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known ones: {', '.join(known)}"
    return f"{key_path([*path, key])}: unknown key; {hint}"


def _line(fault: Any, model: type[BaseModel], path: list[str]) -> str:
    parts = _parts(fault["loc"])
    kind, context = fault["type"], fault.get("ctx", {})
    if kind == "extra_forbidden":
        return unknown(str(parts[-1]), _keys_at(model, fault["loc"][:-1]), [*path, *parts[:-1]])
    if kind == "at":
        return f"{key_path([*path, *parts, *context['at']])}: {context['message']}"
    if kind.startswith("union_tag"):
        parts.append("kind")
        problem = f'"{context["tag"]}" is unknown' if "tag" in context else "is missing"
        words = f"{problem}; write one of {', '.join(LABEL_KINDS)}"
    elif kind == "literal_error":
        words = f"must be {context['expected']}".replace("'", '"')
    elif kind == "value_error":
        words = str(context["error"])
    elif kind in SENTENCES:
        words = SENTENCES[kind].format(**context).replace("'", '"')
    else:
        words = fault["msg"]
    return f"{key_path([*path, *parts])}: {words}"


def _parts(loc: tuple[Any, ...]) -> list[Any]:
    """The path of keys in pydantic's location, which also names union members and dict keys."""
    return [
        part
        for at, part in enumerate(loc)
        if part not in MARKS and not (at == 1 and loc[0] == "labels" and part in LABEL_KINDS)
    ]


def _below(fault: Any, other: Any) -> bool:
    loc, above = fault["loc"], other["loc"]
    return len(loc) > len(above) and loc[: len(above)] == above


def _keys_at(model: type[BaseModel], loc: tuple[Any, ...]) -> set[str]:
    """Keys of the table at pydantic's location, of its kind."""
    models: list[type[BaseModel]] = [model]
    for part in loc:
        if isinstance(part, int) or part in MARKS:  # of a list of tables, or of a union
            continue
        of_kind = [each for each in models if part in _kinds(each)]
        if of_kind:
            models = of_kind
            continue
        types = [
            model.model_fields[part].annotation for model in models if part in model.model_fields
        ]
        models = [model for annotation in types for model in _models(annotation)]
    return {name for model in models for name in model.model_fields}


def _kinds(model: type[BaseModel]) -> tuple[Any, ...]:
    kind = model.model_fields.get("kind")
    return () if kind is None else get_args(kind.annotation)


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models(argument)]
