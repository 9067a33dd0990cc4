"""What a compiled Java class has, read from the jars that PySpark brings; needs no Java."""

from __future__ import annotations

import re
import struct
import zipfile
from functools import cache
from pathlib import Path

import pyspark

UTF8 = 1
SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4}
SIZES |= {19: 2, 20: 2}
"""Bytes of an entry of the constant pool, by its tag (Java's specification of class files, 4.4)."""
WIDE = (5, 6)
"""Tags of entries that count twice."""
NAMES = {"B": "byte", "I": "int", "J": "long", "Z": "boolean"}
JARS = Path(pyspark.__file__).parent / "jars"


@cache
def _entries() -> dict[str, Path]:
    """The jar that has each file; of two the first."""
    found: dict[str, Path] = {}
    for jar in sorted([*JARS.glob("spark-*.jar"), *JARS.glob("hadoop-client-api-*.jar")]):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                found.setdefault(name, jar)
    return found


def content(name: str) -> bytes:
    """A file in Spark's jars; b"" where no jar has it."""
    jar = _entries().get(name)
    if jar is None:
        return b""
    with zipfile.ZipFile(jar) as archive:
        return archive.read(name)


def methods(name: str) -> set[str]:
    """The methods of a class, each as `name(Type, Type)`, and its fields as `name`."""
    data = content(f"{name.replace('.', '/')}.class")
    if not data:
        return set()
    texts, place = _constants(data)
    place += 6  # flags, this class, its parent
    (count,) = struct.unpack_from(">H", data, place)
    place += 2 + 2 * count  # interfaces
    found = set()
    for _ in range(2):
        (count,) = struct.unpack_from(">H", data, place)
        place += 2
        for _ in range(count):
            _, named, typed, attributes = struct.unpack_from(">4H", data, place)
            place += 8
            for _ in range(attributes):
                (size,) = struct.unpack_from(">I", data, place + 2)
                place += 6 + size
            found.add(texts[named] + _parameters(texts[typed]))
    return found


def _constants(data: bytes) -> tuple[dict[int, str], int]:
    (count,) = struct.unpack_from(">H", data, 8)
    texts, place, index = {}, 10, 1
    while index < count:
        tag = data[place]
        if tag == UTF8:
            (size,) = struct.unpack_from(">H", data, place + 1)
            texts[index] = data[place + 3 : place + 3 + size].decode(errors="replace")
            place += 3 + size
        else:
            place += 1 + SIZES[tag]
        index += 2 if tag in WIDE else 1
    return texts, place


def _parameters(descriptor: str) -> str:
    if not descriptor.startswith("("):
        return ""  # a field
    inside = descriptor[1 : descriptor.index(")")]
    types = re.findall(r"(\[*)(?:L([^;]+);|([BCDFIJSZ]))", inside)
    names = [
        (full.rpartition("/")[2] or NAMES.get(short, short)) + "[]" * len(n)
        for n, full, short in types
    ]
    return f"({', '.join(names)})"
