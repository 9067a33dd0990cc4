"""Reading the configuration: all faults at once, each with its key's path and what to write."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import networkx as nx
from pydantic import BaseModel, ValidationError

from sequencer.channels.rules import Rules
from streaming.config.models import DISCIPLINES, ChannelPipeline, Kafka, Pipeline, Service
from streaming.config.values import NAME
from streaming.errors import ConfigError

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
TABLES = ("service", "kafka", "spark", "pipelines")
BOOTSTRAP = "SEQUENCER_BOOTSTRAP_SERVERS"


@dataclass(frozen=True, slots=True)
class Config:
    """A whole configuration, checked. ``kafka.properties`` has its secrets filled in."""

    service: Service
    kafka: Kafka
    spark: dict[str, str]
    pipelines: dict[str, Any] = field(default_factory=dict)

    def rules(self, name: str) -> Rules:
        """The rules of a channel pipeline; ConfigError where its custom labels do not work."""
        pipeline: ChannelPipeline = self.pipelines[name]
        try:
            return pipeline.rules()
        except ValueError as error:
            raise _refusal([f"pipelines.{name}.labels: {error}"], "the configuration") from error


def load_config(path: Path | str, environ: Mapping[str, str] = os.environ) -> Config:
    """Read and check a TOML file. Raises ConfigError that lists every fault found."""
    try:
        tables = tomllib.loads(Path(path).read_text())
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}.", "Nothing was started.", "Check the path."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no TOML: {error}.", "Nothing was started.") from error
    return parse_config(tables, environ, str(path))


def parse_config(tables: dict[str, Any], environ: Mapping[str, str], source: str) -> Config:
    """The configuration in parsed TOML tables; ``source`` names it in errors."""
    faults = [_unknown(key, TABLES, "") for key in tables if key not in TABLES]
    service = _table(Service, tables.get("service"), "service", faults)
    given = dict(tables.get("kafka") or {}) if isinstance(tables.get("kafka", {}), dict) else {}
    if environ.get(BOOTSTRAP):
        given["bootstrap_servers"] = environ[BOOTSTRAP]
    given["properties"] = _fill(given.get("properties", {}), environ, faults)
    kafka = _table(Kafka, given, "kafka", faults)
    spark = _spark(tables.get("spark", {}), faults)
    pipelines = _pipelines(tables.get("pipelines"), faults)
    faults += _topic_faults(pipelines)
    if faults:
        raise _refusal(faults, source)
    assert service is not None  # noqa: S101  (else there is a fault)
    assert kafka is not None  # noqa: S101
    return Config(service, kafka, spark, pipelines)


def _refusal(faults: list[str], source: str) -> ConfigError:
    lines = "".join(f"\n  {fault}" for fault in faults)
    return ConfigError(f"{source} cannot work:{lines}\n", "Nothing was started.")


def _table(
    model: type[BaseModel],
    values: Any,
    path: str,
    faults: list[str],
    context: dict[str, str] | None = None,
) -> Any:
    if values is None and path == "service":
        values = {}
    try:
        return model.model_validate(values, context=context)
    except ValidationError as error:
        faults.extend(_explain(fault, model, path) for fault in error.errors())
        return None


def _explain(fault: Any, model: type[BaseModel], path: str) -> str:
    parts = [str(each) for each in fault["loc"] if each not in ("linear", "cyclic", "custom")]
    where = ".".join([path, *parts])
    kind, context = fault["type"], fault.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown(parts[-1], _keys_at(model, parts[:-1]), ".".join([path, *parts[:-1]]) + ".")
    message = str(context.get("error", "")) or fault["msg"]
    inner = re.match(r"([a-z_.]+): ", message)
    if inner:  # a check over several keys names the one at fault itself
        return f"{where}.{message}" if not where.endswith(inner.group(1)) else f"{where}{message}"
    if kind == "missing":
        message = "is missing; it has no default"
    elif kind == "literal_error":
        message = f"must be one of {context.get('expected', '')}"
    elif kind in ("int_type", "bool_type", "string_type"):
        message = f"has the wrong type: {message.lower()}"
    return f"{where}: {message[0].lower()}{message[1:]}"


def _unknown(key: str, known: Any, prefix: str) -> str:
    near = difflib.get_close_matches(key, list(known), n=1)
    hint = f"did you mean {near[0]}?" if near else f"known ones: {', '.join(sorted(known))}"
    return f"{prefix}{key}: unknown key; {hint}"


def _keys_at(model: type[BaseModel], parts: list[str]) -> list[str]:
    """Keys of the table that ``parts`` leads to, of all its kinds."""
    models: list[type[BaseModel]] = [model]
    for part in parts:
        types = [each.model_fields[part].annotation for each in models if part in each.model_fields]
        models = [found for each in types for found in _models(each)]
    return sorted({name for each in models for name in each.model_fields})


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for each in get_args(annotation) for found in _models(each)]


def _fill(properties: Any, environ: Mapping[str, str], faults: list[str]) -> Any:
    """Properties with every ${NAME} replaced from the environment."""
    if not isinstance(properties, dict):
        return properties
    filled: dict[str, Any] = {}
    for key, value in properties.items():
        if isinstance(value, str):
            missing = [name for name in VARIABLE.findall(value) if name not in environ]
            faults += [
                f"kafka.properties.{key}: the environment has no {name}; set it, or write the value"
                for name in missing
            ]
            if not missing:
                value = VARIABLE.sub(lambda found: environ[found.group(1)], value)  # noqa: PLW2901
        filled[key] = value
    return filled


def _spark(values: Any, faults: list[str]) -> dict[str, str]:
    if not isinstance(values, dict):
        faults.append("spark: must be a table of Spark properties")
        return {}
    settings: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, bool):
            settings[key] = str(value).lower()
        elif isinstance(value, (str, int, float)):
            settings[key] = str(value)
        else:
            faults.append(f'spark.{key}: write the whole property name in quotes: "{key}.…" = …')
    return settings


def _pipelines(values: Any, faults: list[str]) -> dict[str, Pipeline]:
    if not isinstance(values, dict) or not values:
        faults.append("pipelines: there is none; add a table [pipelines.NAME] with a discipline")
        return {}
    found: dict[str, Pipeline] = {}
    for name, table in values.items():
        path = f"pipelines.{name}"
        if not NAME.fullmatch(name) or len(name) > 100:
            faults.append(f"{path}: the name becomes part of topics; use letters, digits, . _ -")
            continue
        discipline = table.get("discipline") if isinstance(table, dict) else None
        model = DISCIPLINES.get(discipline) if isinstance(discipline, str) else None
        if model is None:
            faults.append(f"{path}.discipline: must be one of {', '.join(DISCIPLINES)}")
            continue
        made = _table(model, table, path, faults, {"pipeline": name})
        if made is not None:
            found[name] = made
    return found


def _topic_faults(pipelines: dict[str, Pipeline]) -> list[str]:
    """Topics written by two, or read and written in a circle."""
    faults: list[str] = []
    writers: dict[str, str] = {}
    for name, pipeline in pipelines.items():
        service = [getattr(pipeline, role, None) for role in ("commands", "transit")]
        for role, topic in [
            *pipeline.written.items(),
            *zip(("commands", "transit"), service, strict=True),
        ]:
            if topic is None:
                continue
            path = f"pipelines.{name}.{role}"
            if topic in writers:
                faults.append(f"{path}: {topic} is {writers[topic]} already; use another topic")
            writers.setdefault(topic, path)
            if topic in pipeline.input:
                faults.append(f"{path}: {topic} is the pipeline's own input; use another topic")
    links = nx.DiGraph()
    for name, pipeline in pipelines.items():
        for other, source in pipelines.items():
            if other != name and set(pipeline.input) & set(source.written.values()):
                links.add_edge(other, name)
    faults += [
        f"pipelines.{circle[0]}.input: the pipelines {' → '.join([*circle, circle[0]])} feed each "
        "other in a circle; break it"
        for circle in nx.simple_cycles(links)
    ]
    return faults
