"""Names of headers that are not UTF-8, which kafka-python takes for damage.

The service delivers such a record, with U+FFFD in the name. Without this, one of them would keep
`verify` from judging anything.
"""

from __future__ import annotations

from functools import wraps
from typing import Any


class _Name(bytes):
    def decode(self, *_: Any, **__: Any) -> str:
        return super().decode(errors="replace")


class _Batch(bytes):
    """The bytes of a batch, of which pieces become names."""

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        return _Name(found) if isinstance(at, slice) else found


def read_all_names() -> None:
    """Have kafka-python read each record, whatever the names of its headers are."""
    from kafka.record.default_records import DefaultRecordBatch  # noqa: PLC0415

    strict = DefaultRecordBatch._read_msg  # noqa: SLF001  (tests name it)
    if getattr(strict, "reads_all_names", False):
        return

    @wraps(strict)
    def read(batch: Any) -> Any:
        try:
            return strict(batch)
        except UnicodeDecodeError:
            batch._buffer = _Batch(batch._buffer)  # noqa: SLF001  (for all records that follow)
            return strict(batch)

    read.reads_all_names = True  # type: ignore[attr-defined]
    DefaultRecordBatch._read_msg = read  # noqa: SLF001
