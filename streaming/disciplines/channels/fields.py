"""Labels and channels that are fields of records' values, read before the records are packed.

    value   {"id": "K1", "seq": 7}   {"id": "K2"}   5G!
    channel K1                       K2             null
    label   7                        null           0xff "the value is not JSON"

So an unreadable value is rejected as `missing-channel` or `bad-label`, one without the field as
`missing-channel` or `missing-label`. Commands are not read.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.arrow.columns import flat, plain
from streaming.settings.fields import AVRO, JSON, PROTOBUF, ValueField
from streaming.values.schemas import Schemas
from streaming.values.texts import UNREADABLE, Texts, why_unreadable

NO_SCHEMAS = Schemas()
Fields = Mapping[str, ValueField]
"""The columns `channel` and `label`, as far as they are fields of the value."""


def fields_of(channel: str | ValueField, label: str | ValueField) -> Fields:
    """Return those of the two that are fields of the value."""
    both = {"channel": channel, "label": label}
    return {name: each for name, each in both.items() if isinstance(each, ValueField)}


def with_fields(
    records: pa.Table, fields: Fields, inputs: int, schemas: Schemas = NO_SCHEMAS
) -> pa.Table:
    """Return the records with the columns that are fields of their values; SchemasNeeded.

    Commands are records of topics behind the ``inputs``.
    """
    if not fields:
        return records
    values = plain(flat(records["value"]))
    is_record = flat(records["topic"]).to_numpy() < inputs
    row = np.where(is_record, np.cumsum(is_record) - 1, 0)
    whole = bool(is_record.all())
    found = read_fields(values if whole else values.filter(pa.array(is_record)), fields, schemas)
    faults: dict[int, str] = {}
    for each in found.values():
        faults = {**each.faults, **faults}
    for name, each in found.items():
        texts = each.as_labels(faults) if name == "label" else each.texts
        if not whole:
            texts = texts.take(pa.array(row, mask=~is_record))
        records = records.append_column(name, texts)
    return records


def read_fields(values: pa.Array, fields: Fields, schemas: Schemas) -> dict[str, Texts]:
    """Return the texts of some fields of values (binary); SchemasNeeded."""
    found: dict[str, Texts] = {}
    if in_json := {name: each for name, each in fields.items() if each.encoding == JSON}:
        from streaming.values.json_values import read_json  # noqa: PLC0415  (where it is used)

        paths = [each.path for each in in_json.values()]
        steps = [each.steps for each in in_json.values()]
        found |= dict(zip(in_json, read_json(values, paths, steps), strict=True))
    for name, each in fields.items():
        if each.encoding == AVRO:
            from streaming.values.avro_values import read_avro  # noqa: PLC0415  (likewise)

            found[name] = read_avro(values, each.path, each.steps, schemas)
        elif each.encoding == PROTOBUF:
            from streaming.values.protobuf_values import read_protobuf  # noqa: PLC0415

            found[name] = read_protobuf(values, each.path, each.steps, schemas)
    return found


def need_schemas(fields: Fields) -> bool:
    """Return whether values can be read with a registry's schemas only."""
    return any(each.needs_schema for each in fields.values())


def unreadable(labels: pa.Array, held: int) -> dict[int, str]:
    """Return why labels of a batch could not be read, by their rows behind the ``held`` ones."""
    marked = pc.indices_nonzero(pc.starts_with(labels, UNREADABLE).fill_null(fill_value=False))
    return {
        held + row: why
        for row in marked.to_pylist()
        if (why := why_unreadable(labels[row].as_py())) is not None
    }
