"""Snappy and zstd for kafka-python, which wants a package of its own for each of them."""

from __future__ import annotations

from functools import partial
from typing import Any

from streaming.wire.decompression import decompressed


def read_all_codecs() -> None:
    """Have kafka-python read record batches of every compression, whatever is installed."""
    from kafka import codec  # noqa: PLC0415
    from kafka.record import default_records, legacy_records  # noqa: PLC0415

    if not codec.has_snappy():
        codec.has_snappy = lambda: True
        default_records.snappy_decode = partial(_decoded, "snappy")
        legacy_records.snappy_decode = default_records.snappy_decode
    if not codec.has_zstd():
        codec.has_zstd = lambda: True
        default_records.zstd_decode = partial(_decoded, "zstd")


def _decoded(name: str, body: Any) -> bytes:
    from kafka.errors import CorruptRecordError  # noqa: PLC0415

    try:
        return decompressed(memoryview(body), name)
    except ValueError as error:
        raise CorruptRecordError(f"{name}: {error}") from error
