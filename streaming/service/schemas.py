"""Schemas that a pipeline's values are read with: asked for once, and kept in the checkpoint.

A registry may be away, forget a schema, or come to know one: a batch that is repeated must read its
values as before. So its answers are decisions. A schema stays in `decisions.json`, and no registry
is asked for it again. "There is no such schema" is a finding of the batch in which it turned out,
and one that cannot be used is forgotten before the next batch, which asks anew if it has the id:
protoc may have had no time or no room, the registry no reference yet.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from streaming.errors import RegistryUnavailable, SchemasNeeded
from streaming.logs import say
from streaming.values.framing import WHY_CHARACTERS_MAX, BadSchema
from streaming.values.schemas import KNOWN, UNKNOWN, Schema, Schemas, ids_needed, is_usable

if TYPE_CHECKING:
    from streaming.kafka.registry import Answer, Registry
    from streaming.service.decisions import Decisions

Found = TypeVar("Found")
PAUSE_SECONDS = (0.2, 0.5, 1, 2, 5)
KEPT_MAX, KEPT_CHARACTERS_MAX = 1_000, 2**20
"""Schemas that are kept from batch to batch, and how long they are, packed, together."""
KIND_CHARACTERS_MAX = 20


class StopRequested(Exception):  # noqa: N818  (no fault: the way to end a query between batches)
    """The service stops; this batch was not begun, or not written."""


class SchemaKeeper:
    """What the driver knows of schemas; asks the registry, and waits for it.

    ``waits`` is called with what is waited for, and with nothing when that is over.

    Called by the query's thread; the run loop sets ``stopping``, which ends a wait.
    """

    def __init__(
        self,
        decisions: Decisions,
        registry: Registry,
        pipeline: str,
        waits: Callable[[str], None],
        stopping: threading.Event,
    ) -> None:
        self.decisions = decisions
        self.registry = registry
        self.pipeline = pipeline
        self._waits = waits
        self._stopping = stopping

    def known(self, batch: int) -> dict[str, Any]:
        """Return the decisions about schemas with which a batch begins.

        Schemas that cannot be used, and where there are too many, the oldest are forgotten; not for
        a batch that was planned.
        """
        kept = self.decisions.schemas
        if batch > self.decisions.planned:
            for number in [number for number, packed in kept.items() if not is_usable(packed)]:
                del kept[number]
            size = sum(map(len, kept.values()))
            while len(kept) > KEPT_MAX or size > KEPT_CHARACTERS_MAX:
                size -= len(kept.pop(next(iter(kept))))
        return {KNOWN: dict(kept)}

    def find(self, ids: Iterable[int], batch: int) -> dict[str, Any]:
        """Ask for schemas; return the decisions about all that are known now.

        They are in the checkpoint. StopRequested where the service stops while it waits.
        """
        unknown = set(self.decisions.findings(batch).get(UNKNOWN, ()))
        for number in ids:
            schema = self._waited_for(number)
            if schema is None:
                unknown.add(number)
            else:
                self.decisions.schemas[str(number)] = schema.packed()
        self.decisions.add(batch, {UNKNOWN: sorted(unknown)})
        return {KNOWN: dict(self.decisions.schemas), UNKNOWN: sorted(unknown)}

    def _waited_for(self, number: int) -> Schema | None:
        failures = 0
        while not self._stopping.is_set():
            try:
                schema = fetched(self.registry, number)
            except RegistryUnavailable as error:
                if not failures:
                    say(
                        f"{self.pipeline}: {error.message} Waiting for it.",
                        event="registry-away",
                        level="warning",
                        pipeline=self.pipeline,
                    )
                self._waits(f"schema {number} of the registry at {self.registry.addresses}")
                self._stopping.wait(PAUSE_SECONDS[min(failures, len(PAUSE_SECONDS) - 1)])
                failures += 1
            else:
                if failures:
                    say(
                        f"{self.pipeline}: the schema registry is back.",
                        event="registry-back",
                        pipeline=self.pipeline,
                    )
                    self._waits("")
                return schema
        raise StopRequested


class AskedSchemas:
    """Schemas for work outside of the service, asked for where values need them."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._schemas = Schemas()

    def __call__(self, work: Callable[[Schemas], Found]) -> Found:
        """Return what work returns that is given schemas; RegistryUnavailable."""
        while True:
            try:
                return work(self._schemas)
            except SchemasNeeded as needed:
                found = {number: fetched(self.registry, number) for number in ids_needed(needed)}
                known = {number: each.packed() for number, each in found.items() if each}
                unknown = {*self._schemas.unknown, *(found.keys() - known.keys())}
                self._schemas = Schemas({**self._schemas.known, **known}, unknown)


def fetched(registry: Registry, number: int) -> Schema | None:
    """Return a schema as values are read with it; None where there is none. RegistryUnavailable."""
    from streaming.kafka.registry import TooMuch  # noqa: PLC0415  (no HTTP where it is not used)

    kind = "schema"
    try:
        answer = registry.schema(number)
        if answer is None:
            return None
        kind = str(answer.get("schemaType") or "AVRO").upper()[:KIND_CHARACTERS_MAX]
        return _usable(registry, kind, answer)
    except (BadSchema, TooMuch) as error:
        return Schema(kind, unusable=str(error)[:WHY_CHARACTERS_MAX])
    except (KeyError, TypeError, ValueError, OverflowError):
        return Schema(kind, unusable="its references are none")


def _usable(registry: Registry, kind: str, answer: Answer) -> Schema:
    if kind not in ("AVRO", "PROTOBUF"):
        return Schema(kind)
    texts = {name: each["schema"] for name, each in registry.references(answer).items()}
    if kind == "PROTOBUF":
        from streaming.values.protobuf_files import compiled  # noqa: PLC0415  (where it is used)

        return compiled(answer["schema"], texts)
    from streaming.values.avro_values import require_avro  # noqa: PLC0415  (likewise)

    schema = Schema(kind, answer["schema"], tuple(texts.values()))
    require_avro(schema)
    return schema
