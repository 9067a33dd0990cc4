"""Protobuf's schemas from text to descriptors, by protoc (of grpcio-tools)."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from streaming.values.framing import WHY_CHARACTERS_MAX, BadSchema
from streaming.values.known_files import KNOWN_FILES
from streaming.values.protobuf_values import PROTOBUF, file_of
from streaming.values.schemas import Schema

PROTOC_SECONDS_MAX = 60
MAP_ENTRY = re.compile(r"\boption\s+map_entry\s*=\s*true\s*;")
"""Registries write a `map` as a repeated message with this option, which protoc refuses. Without it
the bytes of a value mean the same."""

LOG_LINE = re.compile(r"WARNING: All log messages|[IWEF][0-9]{4} ")
"""What protoc writes besides its errors."""


def compiled(text: str, references: Mapping[str, str]) -> Schema:
    """Return the schema of a .proto file, which imports others by their names; BadSchema.

    It may also import KNOWN_FILES. protoc runs in a process of its own: whatever the text does to
    it stays there.
    """
    name = "value.proto"
    while name in references:
        name = f"_{name}"
    with tempfile.TemporaryDirectory(prefix="schema-") as folder:
        _write(Path(folder, "own"), {**references, name: text})
        _write(Path(folder, "known"), KNOWN_FILES)
        schema = Schema(PROTOBUF, base64.b64encode(_descriptors(folder, name)).decode())
    file_of(schema)
    return schema


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for each, content in files.items():
        path = PurePosixPath(each)
        if path.is_absolute() or ".." in path.parts or not each.isprintable():
            raise BadSchema(f"{each[:WHY_CHARACTERS_MAX]!r} is not the name of a file")
        target = folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(MAP_ENTRY.sub("", content), encoding="utf-8")
        except (OSError, ValueError) as error:
            raise BadSchema(f"{each[:WHY_CHARACTERS_MAX]!r} cannot be a file") from error


def _descriptors(folder: str, name: str) -> bytes:
    target = Path(folder, "descriptors")
    words = ["--include_imports", f"--descriptor_set_out={target}"]
    words += [f"-I{folder}/own", f"-I{folder}/known", name]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "grpc_tools.protoc", *words],
            capture_output=True,
            text=True,
            timeout=PROTOC_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BadSchema(f"protoc takes longer than {PROTOC_SECONDS_MAX} s for it") from error
    if done.returncode or not target.exists():
        lines = done.stderr.replace(f"{folder}/own/", "").splitlines()
        said = [line for line in lines if line and not LOG_LINE.match(line)]
        why = (said or [f"status {done.returncode}"])[0]
        raise BadSchema(f"protoc refuses it: {why[:WHY_CHARACTERS_MAX]}")
    return target.read_bytes()
