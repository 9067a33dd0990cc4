"""The jar of streaming/spark/java, made of its source: `python -m tests.s3_files` writes it anew."""

from __future__ import annotations

import subprocess
import tempfile
import zipfile
from pathlib import Path

from streaming.kafka.jars import S3_FILES, java_environment, pyspark_folder

SOURCE = S3_FILES.parent / "sequencer" / "S3Files.java"
COMPILE_SECONDS_MAX = 300
LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""All entries are of this time: equal classes make equal jars."""


def compiled(folder: Path) -> dict[str, bytes]:
    """The classes that javac makes of the source, by their names in a jar."""
    jars = f"{pyspark_folder()}/jars/*"
    words = ["javac", "--release", "17", "-proc:none", "-cp", jars, "-d", str(folder), str(SOURCE)]
    subprocess.run(words, check=True, timeout=COMPILE_SECONDS_MAX, env=java_environment())
    classes = sorted(folder.rglob("*.class"))
    return {str(each.relative_to(folder)): each.read_bytes() for each in classes}


def main() -> None:
    """Write the jar."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(S3_FILES, "w") as jar:
        for name, code in compiled(Path(folder)).items():
            jar.writestr(zipfile.ZipInfo(name, LONG_AGO), code)


if __name__ == "__main__":
    main()
