"""What pipelines of every discipline have: topics, and how long things are remembered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from streaming.settings.table import Table
from streaming.settings.values import SUBSCRIBER, Member, PositiveDuration, Span, TopicName


def once(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names; ValueError where one stands there twice."""
    for at, name in enumerate(names):
        if name in names[:at]:
            raise ValueError(f"names {name!r} twice; name each once")
    return names


Members = Annotated[tuple[Member, ...], Field(min_length=1), AfterValidator(once)]


class Pipeline(Table):
    """What pipelines of every discipline have. Topics left out are named after the pipeline.

    ``progress`` is the topic of progress marks, "" for none; users write true or false.
    """

    input: Annotated[tuple[TopicName, ...], Field(min_length=1), AfterValidator(once)]
    output: TopicName
    rejects: TopicName
    events: TopicName
    commands: TopicName
    retire_after: PositiveDuration = Span(7 * 86_400_000)
    origin: Annotated[bool, Field(strict=True)] = False
    progress: TopicName | Literal[""] = ""

    @model_validator(mode="before")
    @classmethod
    def _default_topics(cls, values: Any, info: Any) -> Any:
        name = (info.context or {}).get("pipeline", "")
        if not isinstance(values, dict):
            return values
        defaults = {"input": f"{name}.in", "output": f"{name}.out"}
        defaults |= {
            each: f"{name}.{each}"
            for each in ("rejects", "events", "commands", "transit", "wanted")
        }
        if values.get("progress") in (True, False):
            values = {**values, "progress": f"{name}.progress" if values["progress"] else ""}
        known = {key: value for key, value in defaults.items() if key in cls.model_fields}
        return {**known, **values}

    @field_validator("progress")
    @classmethod
    def _one_output(cls, value: str, info: ValidationInfo) -> str:
        if value and SUBSCRIBER in info.data.get("output", ""):
            raise ValueError(
                "needs one output topic: a mark describes the partitions of one; write "
                "progress = false, or an output without {subscriber}"
            )
        return value

    @field_validator("input", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @property
    def transit_topic(self) -> str | None:
        """What shards send each other messages by; None where they do not."""
        return getattr(self, "transit", None) if self.exchanges(vars(self)) else None

    @classmethod
    def exchanges(cls, _values: Mapping[str, Any]) -> bool:
        """Return whether a pipeline with these values, as they were read, has a transit topic."""
        return "transit" in cls.model_fields

    @property
    def written(self) -> dict[str, str]:
        """The topics that the pipeline writes to, by role."""
        topics = {"output": self.output, "rejects": self.rejects, "events": self.events}
        topics |= {"progress": self.progress} if self.progress else {}
        return topics | ({"transit": self.transit_topic} if self.transit_topic else {})

    def outputs(self) -> list[str]:
        """Return the topics of deliveries, as far as known; see :meth:`topics`."""
        return [topic for role, topic in self.topics() if role == "output"]

    def topics_written(self) -> set[str]:
        """Return the topics that it writes, as far as known; see :meth:`topics`."""
        return {topic for role, topic in self.topics() if role in self.written}

    def topics(self) -> list[tuple[str, str]]:
        """Role and name of each topic that the pipeline reads or writes, as far as known.

        A name with ``{subscriber}`` stands for the topics of the configuration's subscribers.
        """
        named = {**self.written, "commands": self.commands}
        roles = [("input", topic) for topic in self.input]
        for role, name in named.items():
            members = self.subscribers() if SUBSCRIBER in name else [""]
            roles += [(role, name.replace(SUBSCRIBER, member)) for member in members]
        return roles

    @property
    def needs_registry(self) -> bool:
        """Whether values can be read with the schemas of a registry only."""
        return False

    def subscribers(self) -> list[str]:
        """The subscribers that the configuration names."""
        return []

    def try_out(self) -> None:
        """Try what loading leaves for later (functions of the user's).

        ValueError where it does not work; a `settings.values.fault` names the key.
        """

    def understood(self) -> dict[str, Any]:
        """The settings with their defaults, as JSON has them."""
        return self.model_dump(mode="json")
