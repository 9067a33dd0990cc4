"""Schemas that a batch may read values with: the driver's answer, which travels to its tasks.

A task asks no registry. Where it meets an id that is in neither list, it fails with
`SchemasNeeded`; the driver asks, keeps the answer, and has the batch run again
(`streaming.service.schemas`). So a repeated batch reads its values as it did before.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from streaming.errors import SchemasNeeded

KNOWN, UNKNOWN = "schemas", "unknown_schemas"
"""Names of the decisions of a batch (`BatchContext.decisions`)."""
NEEDED_MAX = 10_000
"""A task asks for at most this number of ids at once."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as a registry has it; ``unusable`` says why no value can be read with it.

    ``kind``: AVRO, PROTOBUF or JSON. ``references``: the schemas that it refers to, each behind
    those that it refers to itself. Those of Protobuf are compiled: ``text`` is a set of file
    descriptors in base64, and has the references.
    """

    kind: str
    text: str = ""
    references: tuple[str, ...] = ()
    unusable: str = ""

    def packed(self) -> str:
        """Return it in one short text."""
        plain = [self.kind, self.text, self.references, self.unusable]
        return base64.b64encode(zlib.compress(json.dumps(plain).encode())).decode()

    @classmethod
    def unpacked(cls, packed: str) -> Schema:
        """Return the inverse of :meth:`packed`."""
        kind, text, references, unusable = json.loads(zlib.decompress(base64.b64decode(packed)))
        return cls(kind, text, tuple(references), unusable)


@lru_cache(2_000)
def is_usable(packed: str) -> bool:
    """Return whether values can be read with a packed schema."""
    return not Schema.unpacked(packed).unusable


@dataclass(frozen=True, slots=True)
class Schemas:
    """Schemas by id, packed, and the ids that no registry knows."""

    known: Mapping[int, str] = field(default_factory=dict)
    unknown: Collection[int] = frozenset()

    @classmethod
    def of(cls, decisions: Mapping[str, Any]) -> Schemas:
        """Return those in a batch's decisions."""
        known = {int(number): packed for number, packed in decisions.get(KNOWN, {}).items()}
        return cls(known, frozenset(decisions.get(UNKNOWN, ())))

    def require(self, ids: Iterable[int]) -> None:
        """SchemasNeeded for those of the ids that nothing is known about."""
        needed = sorted(set(ids) - self.known.keys() - set(self.unknown))[:NEEDED_MAX]
        if needed:
            raise SchemasNeeded(" ".join(map(str, needed)))


def ids_needed(error: SchemasNeeded) -> list[int]:
    """Return the ids that a task asks for."""
    return [int(number) for number in error.message.split()]


def missing_packages() -> list[str]:
    """Return what is to be installed before values in Protobuf can be read."""
    return [name for name in ("google.protobuf", "grpc_tools") if not _is_there(name)]


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # not even the package that it is in
        return False
