"""docs/reference.md, made from the code: configuration, reasons of rejects, clients, verbs.

`python -m tests.reference` (or `make reference`) writes the page.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer.main
from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from streaming import cli
from streaming.config.tables import Kafka, Service
from streaming.disciplines import DISCIPLINES
from streaming.settings.fields import ValueField
from streaming.settings.pipeline import Pipeline
from streaming.settings.values import Span
from tests.reference_clients import clients_section

PAGE = Path(__file__).parents[1] / "docs" / "reference.md"
HEAD = """\
# Reference

`make reference` generates this page from the code, and `make test` compares them. The keys are explained in
[operations.md](operations.md#configuration) and on each discipline's page; `sequencer check FILE` shows a file with all
defaults, `sequencer COMMAND --help` a command's complete help.

Times are text with a unit: `"200 ms"`, `"1.5 s"`, `"5 min"`, `"2 h"`, `"7 days"`. Sizes are bytes, other numbers
counts. A default that is not set: the service chooses (the page of the key says how), or the feature is off. A table in
braces is written as `{ key = value }` or as a separate table. All keys exist since 1.0.0.
"""
BOUNDS = {Ge: "from {}", Gt: "above {}", Le: "to {}", Lt: "below {}"}


def kind(annotation: Any, metadata: Any = ()) -> str:
    """What may be written for a field."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return kind(arguments[0], (*arguments[1:], *metadata))
    if origin is Literal:
        return " or ".join(f"`{quoted(each)}`" for each in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(
            dict.fromkeys(kind(each) for each in arguments if each is not type(None))
        )
    bounds = list(limits(metadata))
    if origin in (tuple, list):
        return " ".join([f"list of {kind(arguments[0])}", *bounds])
    if origin in (dict, Mapping):
        return f"table of {kind(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"table ({', '.join(f'`{name}`' for name in annotation.model_fields)})"
    if annotation is ValueField:
        return 'a field of the value, `{ json = "…" }` and the like'
    names = {Span: "time", bool: "true or false", int: "number", float: "number", str: "text"}
    return " ".join([names.get(annotation, "text"), *bounds])


def limits(metadata: Any) -> Iterator[str]:
    """A field's limits in words."""
    for each in metadata:
        for bound, text in BOUNDS.items():
            if isinstance(each, bound):
                (value,) = vars_of(each)
                yield text.format(f"{value:,}")
        if isinstance(each, FieldInfo):
            yield from limits(each.metadata)
        if isinstance(each, MaxLen):
            yield f"(at most {each.max_length:,})"
        if isinstance(each, MinLen) and each.min_length:
            yield f"(at least {each.min_length:,})"


def vars_of(bound: Any) -> list[Any]:
    return [getattr(bound, name) for name in ("ge", "gt", "le", "lt") if hasattr(bound, name)]


def quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def default(field: FieldInfo) -> str:
    """A field's default, as it is written."""
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, Span):
        return f'`"{value}"`'
    if isinstance(value, BaseModel):
        pairs = {name: at for name, at in value.model_dump(mode="json").items() if at is not None}
        written = ", ".join(f"{name} = {quoted(at)}" for name, at in pairs.items())
        return f"`{{ {written} }}`"
    if value is None or value in ((), {}):
        return "not set"
    return f"`{quoted(value)}`"


def keys(model: type[BaseModel], path: str, own: frozenset[str] = frozenset()) -> Iterator[str]:
    """A row for each key of a table, and for the keys of the tables in it."""
    for name, field in model.model_fields.items():
        if name in own:
            continue
        fallback = default(field)
        if issubclass(model, Pipeline) and name in ("input", *TOPICS):
            fallback = f"`<pipeline>.{TOPICS.get(name, 'in')}`"
        yield f"| `{path}{name}` | {kind(field.annotation, field.metadata)} | {fallback} |"
        for table in tables_in(field.annotation):
            yield from keys(table, f"{path}{name}.")


TOPICS = {"output": "out", "rejects": "rejects", "events": "events", "commands": "commands"}
TOPICS |= {"transit": "transit", "progress_topic": "progress", "wanted": "wanted"}


def tables_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The tables that may stand there."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from tables_in(each)


def table(rows: Iterator[str]) -> str:
    return "\n".join(["| key | allowed values | default |", "| --- | --- | --- |", *rows])


def options(command: Any) -> Iterator[str]:
    """A row for each argument and option of a verb."""
    for each in command.params:
        if "--help" in each.opts or not getattr(each, "help", None):
            continue
        name = " ".join(each.opts) if each.param_type_name == "option" else each.name
        meaning = " ".join(each.help.split()).replace("|", "\\|")
        yield f"| `{name}` | {meaning} |"


def verbs(commands: Any, before: str = "") -> Iterator[str]:
    for name, command in commands.items():
        below = getattr(command, "commands", None)
        if below is not None:
            yield from verbs(below, f"{before}{name} ")
            continue
        first = " ".join((command.help or "").strip().split("\n\n")[0].split())
        head = f"### sequencer {before}{name}\n\n{first}\n"
        rows = list(options(command))
        yield "\n".join([head, "| | |", "| --- | --- |", *rows]) if rows else head.rstrip()


def page() -> str:
    """The whole page."""
    shared = frozenset(Pipeline.model_fields)
    parts = [HEAD, "## `[service]`\n", table(keys(Service, "")), "\n## `[kafka]`\n"]
    parts += [table(keys(Kafka, "")), "\n## `[pipelines.NAME]`, every discipline\n"]
    parts.append(table(keys(Pipeline, "")))
    for name, discipline in DISCIPLINES.items():
        parts += [f'\n## `discipline = "{name}"`\n', table(keys(discipline.settings, "", shared))]
        reasons = ", ".join(f"`{reason}`" for reason in discipline.reasons)
        parts.append(f"\nReasons of its rejects: {reasons}.")
    parts += ["\n## Clients\n\n`from streaming.clients import …` ([clients.md](clients.md)).\n"]
    parts += [clients_section()]
    parts += ["\n## Command line\n", "\n\n".join(verbs(typer.main.get_command(cli.app).commands))]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
