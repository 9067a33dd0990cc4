"""Reading the configuration: all faults at once, each with its key's path and what to write."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from streaming.config import kafka_properties, properties
from streaming.config.explain import explain, unknown
from streaming.config.flow import label_faults, topic_faults
from streaming.config.properties import registry_fault
from streaming.config.tables import Kafka, Service
from streaming.disciplines import DISCIPLINES
from streaming.errors import ConfigError
from streaming.settings.pipeline import Pipeline
from streaming.settings.values import SUBSCRIBER, key_path, name_fault

TABLES = ("service", "kafka", "spark", "pipelines")
FAULTS = {"properties": kafka_properties.fault, "schema_registry_properties": registry_fault}
"""The tables of properties below `[kafka]`, and what says what is wrong with one of them."""
BOOTSTRAP = "SEQUENCER_BOOTSTRAP_SERVERS"
UNSUPPORTED = {
    "spark.submit.deployMode": ("client", "the driver always runs where `sequencer run` is called"),
    "spark.remote": ("", "Spark Connect is not supported"),
    "spark.dynamicAllocation.enabled": (
        "false",
        "a start waits for executors before there is work for them, and they keep state",
    ),
    "spark.task.cpus": ("1", "a task needs one core, and executors with fewer get no task"),
}
"""Spark's properties that are refused, with the one value that is not, and why."""


@dataclass(frozen=True, slots=True)
class Config:
    """A whole configuration, checked. ``kafka``'s properties and ``spark`` have their secrets.

    ``secrets`` are what :meth:`hide` takes out of texts for people. ``in_files``: of each table of
    FAULTS the properties that name a file, before it was read. ``from_environment``: names of
    ``kafka.properties`` that are renewed now and then, and came from the environment.
    ``addresses_in_file``: `kafka.bootstrap_servers` as ``in_files``, "" if it names no file.
    """

    service: Service
    kafka: Kafka
    spark: dict[str, str] = field(repr=False)
    pipelines: dict[str, Any] = field(default_factory=dict)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    source: str = "the configuration"
    in_files: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    from_environment: tuple[str, ...] = ()
    addresses_in_file: str = ""

    @contextmanager
    def faults_of(self, name: str) -> Iterator[None]:
        """What a pipeline's settings find wrong only when they are used, as a ConfigError."""
        try:
            yield
        except ValueError as error:
            at = (error.context or {})["at"] if isinstance(error, PydanticCustomError) else ()
            path = key_path(["pipelines", name, *at])
            raise refusal([f"{path}: {error}"], self.source) from error

    def named(self, names: Iterable[str]) -> list[str]:
        """These pipelines, or all where there are none; ConfigError where one is unknown."""
        for name in names:
            if name not in self.pipelines:
                there = ", ".join(sorted(self.pipelines))
                raise ConfigError(
                    f"There is no pipeline {name!r}.", "Nothing was done.", f"Known ones: {there}."
                )
        return list(dict.fromkeys(names)) or list(self.pipelines)

    def is_output(self, name: str, topic: str) -> bool:
        """Return whether a pipeline's deliveries go to a topic.

        Also to those of subscribers that commands have added: names that fit, and that no pipeline
        writes for anything else. Another one may read such a topic.
        """
        own = self.pipelines[name]
        if topic in own.outputs():
            return True
        before, is_for_each, behind = own.output.partition(SUBSCRIBER)
        if not is_for_each:
            return False
        others = {
            other
            for each in self.pipelines.values()
            for role, other in each.topics()
            if each is own or role in each.written
        }
        is_like = topic.startswith(before) and topic.endswith(behind)
        return is_like and len(topic) > len(before + behind) and topic not in others

    def check(self, names: Iterable[str] | None = None) -> None:
        """Try what loading leaves for later (`Pipeline.try_out`).

        ConfigError that lists the faults of all these pipelines (None: of all).
        """
        faults: list[str] = []
        for name in self.pipelines if names is None else names:
            try:
                with self.faults_of(name):
                    self.pipelines[name].try_out()
            except ConfigError as error:
                faults += error.faults
        if faults:
            raise refusal(faults, self.source)

    def hide(self, text: str) -> str:
        """The text without the secrets of ``kafka``'s properties and `spark`."""
        hidden = self.secrets
        for table, written in self.in_files.items():
            hidden += properties.secrets(written, getattr(self.kafka, table))
        return properties.hide(text, hidden)

    def renew(self) -> None:
        """Read the files again that ``kafka``'s properties and addresses name.

        What cannot be read, is empty for a moment, or cannot be used, stays.
        """
        for table, written in self.in_files.items():
            for name, unfilled in written.items():
                text = properties.fill(unfilled, os.environ, name, [])
                if text and not FAULTS[table](name, text):
                    getattr(self.kafka, table)[name] = text
        if self.addresses_in_file:
            text = properties.fill(self.addresses_in_file, os.environ, "", [])
            renewed = _table(Kafka, {"bootstrap_servers": text}, ["kafka"], []) if text else None
            if renewed is not None:
                addresses = {"bootstrap_servers": renewed.bootstrap_servers}
                object.__setattr__(self, "kafka", self.kafka.model_copy(update=addresses))


def load_config(path: Path | str, environ: Mapping[str, str] = os.environ) -> Config:
    """Read and check a TOML file. Raises ConfigError that lists every fault found."""
    try:
        tables = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}.", "Nothing was started.", "Check the path."
        ) from error
    except UnicodeDecodeError as error:
        line, byte = error.object.count(b"\n", 0, error.start) + 1, error.object[error.start]
        raise ConfigError(
            f"{path} is not text in UTF-8: line {line} has the byte {byte:#04x}.",
            "Nothing was started.",
            "Save it as UTF-8.",
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"{path} is not valid TOML: {error}.", "Nothing was started.", "Correct it."
        ) from error
    return parse_config(tables, environ, str(path))


def at_address(address: str) -> Config:
    """No configuration but an address of Kafka: for commands that need no file."""
    faults: list[str] = []
    kafka = _table(Kafka, {"bootstrap_servers": address}, ["kafka"], faults)
    if kafka is None:
        reasons = [fault.replace("kafka.bootstrap_servers: ", "") for fault in faults]
        raise ConfigError(f"The address of Kafka: {reasons[0]}.", "Nothing was done.")
    return Config(Service(), kafka, {}, source="the command line")


def parse_config(tables: dict[str, Any], environ: Mapping[str, str], source: str) -> Config:
    """The configuration in parsed TOML tables; ``source`` names it in errors."""
    faults = [unknown(key, TABLES, []) for key in tables if key not in TABLES]
    written = _filled(tables.get("service", {}), environ, ["service"], faults)
    service = _table(Service, written, ["service"], faults)
    kafka, secrets = _kafka(tables.get("kafka", {}), environ, faults)
    spark = _spark(tables.get("spark", {}), environ, faults)
    secrets += properties.secrets(tables.get("spark"), spark)
    pipelines = _pipelines(tables.get("pipelines"), faults)
    faults += label_faults(pipelines, service.header_prefix if service else "")
    if kafka is not None and not kafka.schema_registry:
        faults += [
            f"{key_path(['pipelines', name])}: reads fields of values in Avro or Protobuf, which "
            'takes schemas; write schema_registry = "http://host:8081" under [kafka]'
            for name, each in pipelines.items()
            if each.needs_registry
        ]
    if faults or service is None or kafka is None:
        raise refusal([properties.hide(fault, secrets) for fault in faults], source)
    written = {table: tables.get("kafka", {}).get(table, {}) for table in FAULTS}
    in_files = {
        table: {name: value for name, value in values.items() if _names_file(value)}
        for table, values in written.items()
    }
    from_environment = tuple(
        name
        for name, value in written["properties"].items()
        if isinstance(value, str)
        and properties.RENEWED.search(name)
        and properties.names_variable(value, environ)
    )
    given = tables.get("kafka", {}).get("bootstrap_servers", "")
    addresses = given if _names_file(given) and not environ.get(BOOTSTRAP) else ""
    more = secrets, source, in_files, from_environment, addresses
    return Config(service, kafka, spark, pipelines, *more)


def _names_file(value: Any) -> bool:
    return isinstance(value, str) and f"${{{properties.FILE}" in value


def refusal(faults: list[str], source: str) -> ConfigError:
    """The error that lists faults, one a line."""
    lines = "".join(f"\n  {fault}" for fault in faults)
    return ConfigError(f"{source} cannot work:{lines}", "Nothing was started.", faults=faults)


def _table(
    model: type[BaseModel],
    values: Any,
    path: list[str],
    faults: list[str],
    context: dict[str, str] | None = None,
) -> Any:
    try:
        return model.model_validate(values, context=context)
    except ValidationError as error:
        faults.extend(explain(error, model, path))
        return None


def _filled(values: Any, environ: Mapping[str, str], path: list[str], faults: list[str]) -> Any:
    """The table with the variables in its texts filled in."""
    if not isinstance(values, dict):
        return values
    filled = {
        key: properties.fill(value, environ, key_path([*path, key]), faults)
        if isinstance(value, str)
        else value
        for key, value in values.items()
    }
    return {key: value for key, value in filled.items() if value is not None}


def _kafka(
    values: Any, environ: Mapping[str, str], faults: list[str]
) -> tuple[Kafka | None, tuple[str, ...]]:
    if not isinstance(values, dict):
        faults.append("kafka: must be a table; write [kafka] and its keys below")
        return None, ()
    filled_in = _filled(values, environ, ["kafka"], faults)
    secrets: tuple[str, ...] = ()
    for name, fault in FAULTS.items():
        raw = values.get(name, {})
        filled_in[name] = properties.read(raw, environ, faults, name, fault)
        secrets += properties.secrets(raw, filled_in[name])
    if address := environ.get(BOOTSTRAP):
        filled_in["bootstrap_servers"] = address
    own_faults: list[str] = []
    kafka = _table(Kafka, filled_in, ["kafka"], own_faults)
    if address:
        own_faults = [
            fault.replace("kafka.bootstrap_servers", f"{BOOTSTRAP} (set)") for fault in own_faults
        ]
    faults += own_faults
    return kafka, secrets


def _spark(values: Any, environ: Mapping[str, str], faults: list[str]) -> dict[str, str]:
    if not isinstance(values, dict):
        faults.append("spark: must be a table; write [spark] and Spark's properties below")
        return {}
    settings: dict[str, str] = {}
    for key, value in values.items():
        path = key_path(["spark", key])
        whole = key if key == "spark" or key.startswith("spark.") else f"spark.{key}"
        if isinstance(value, dict):
            faults.append(f'{path}: is a table; write the whole name in quotes: "{whole}.…" = …')
        elif not isinstance(value, (str, bool, int, float)):
            faults.append(f"{path}: must be text, a number, true or false")
        elif whole != key:
            faults.append(f'{path}: write the whole name, which begins with spark: "{whole}" = …')
        else:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            filled = properties.fill(text, environ, path, faults, properties.SPARK_VARIABLE)
            settings[key] = text if filled is None else filled
            allowed, why = UNSUPPORTED.get(key, (settings[key], ""))
            if settings[key] != allowed:
                faults.append(f"{path}: {why}; leave it out")
    return settings


def _pipelines(values: Any, faults: list[str]) -> dict[str, Pipeline]:
    if not isinstance(values, dict) or not values:
        state = "must be a table" if values else "there is none"
        faults.append(f"pipelines: {state}; add a table [pipelines.NAME] with a discipline")
        return {}
    pipelines: dict[str, Pipeline] = {}
    for name, table in values.items():
        path = ["pipelines", name]
        shown = key_path(path)
        if wrong := name_fault(name):
            faults.append(f"{shown}: {wrong}")
            continue
        if not isinstance(table, dict):
            faults.append(f"{shown}: must be a table; write [{shown}] and its keys below")
            continue
        discipline = table.get("discipline")
        known = DISCIPLINES.get(discipline) if isinstance(discipline, str) else None
        if known is None:
            names = ", ".join(f'"{discipline}"' for discipline in DISCIPLINES)
            problem = "is missing" if discipline is None else f"{discipline!r} is unknown"
            faults.append(f"{shown}.discipline: {problem}; write one of {names}")
            continue
        settings = _table(known.settings, table, path, faults, {"pipeline": name})
        if settings is not None:
            pipelines[name] = settings
    faults += topic_faults(values)
    return pipelines
