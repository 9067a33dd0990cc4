"""Where checkpoints lie (folders, HDFS, object stores), and the service's own way to files there.

Spark goes its own way to the same files, through Hadoop's clients; what [spark] says to those, the
clients here get, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyarrow import ArrowException, fs

from streaming.durable import sync
from streaming.errors import ConfigError, StorageUnavailable

S3 = ("s3", "s3a", "s3n")
GS = ("gs",)
HDFS = ("hdfs",)
HADOOP = "spark.hadoop."
HDFS_ATTEMPTS = "dfs.client.failover.max.attempts"
HDFS_ATTEMPTS_MAX = "4"
"""Some ten seconds; by default it is some minutes."""
GS_SECONDS_MAX = 30
HERE = ("", "file")
WRAPPED = re.compile(
    r'RPCError\("[\w.$]+", "(.*)|google::cloud::Status\((.*?) error_info=', re.DOTALL
)
"""What HDFS and Google's client say, around a reason."""


class Files:
    """The files below a location; StorageUnavailable where that does not answer, or refuses us.

    Names are relative to it. ``spark``: Spark's properties. ``synced``: whether a folder's disk has
    a file before :meth:`write` returns.
    """

    def __init__(self, location: str, spark: Mapping[str, str], *, synced: bool = False) -> None:
        self.location = location
        self.synced = synced and is_local(location)
        with self._asked():
            self._system, self._path = _open(location, spark)

    def kind(self, name: str) -> fs.FileType:
        """What is there, if anything."""
        with self._asked():
            return self._system.get_file_info(self._at(name)).type

    def names(self, folder: str = "", *, recursive: bool = False) -> Iterator[tuple[str, bool]]:
        """What a folder has, and whether each is a file; none where there is no folder."""
        where = fs.FileSelector(self._at(folder), allow_not_found=True, recursive=recursive)
        with self._asked():
            found = self._system.get_file_info(where)
        for entry in found:
            inside = entry.path.removeprefix(self._path).strip("/")
            yield inside, entry.type == fs.FileType.File

    def read(self, name: str) -> bytes:
        """The whole file."""
        with self._asked(), self._system.open_input_stream(self._at(name)) as stream:
            return bytes(stream.read())

    def write(self, name: str, content: bytes, *, synced: bool = False) -> None:
        """Write or replace a file, as a whole or not at all.

        ``synced``: a folder's disk has it before this returns, even if the others are not synced.
        """
        path = self._at(name)
        synced = self.synced or (synced and is_local(self.location))
        # An object store shows a file when it is whole, and has no rename.
        new = f"{path}.new" if self._renames else path
        with self._asked():
            self._system.create_dir(path.rpartition("/")[0], recursive=True)
            with self._system.open_output_stream(new) as stream:
                stream.write(content)
            if synced:
                sync(new)
            if new != path:
                self._system.move(new, path)
            if synced:
                sync(path.rpartition("/")[0])

    def make_folder(self) -> None:
        """The location itself."""
        with self._asked():
            self._system.create_dir(self._path, recursive=True)

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with what is in it."""
        kind = self.kind(name)
        with self._asked():
            if kind == fs.FileType.Directory:
                # In an object store it may be no more than the beginning of names, now gone.
                with suppress(FileNotFoundError):
                    self._system.delete_dir(self._at(name))
            elif kind == fs.FileType.File:
                self._system.delete_file(self._at(name))
            if self.synced and kind != fs.FileType.NotFound:
                sync(self._at(name).rpartition("/")[0])

    @property
    def local(self) -> bool:
        """Whether it is a folder of this machine."""
        return isinstance(self._system, fs.LocalFileSystem)

    @property
    def _renames(self) -> bool:
        return self.local or scheme(self.location) in HDFS

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}" if name else self._path

    @contextmanager
    def _asked(self) -> Iterator[None]:
        try:
            yield
        except (OSError, RuntimeError, ArrowException) as error:
            raise StorageUnavailable(
                f"The checkpoint {self.location} cannot be used: {_reason(error)}.",
                "What is written there stays unchanged.",
                "See that it answers and lets us in (service.checkpoint, [spark] spark.hadoop.…)."
                if not is_local(self.location)
                else "See that the folder can be written to.",
            ) from error


def scheme(location: str) -> str:
    """The scheme of a Hadoop URI; empty for a path."""
    return location.partition("://")[0] if "://" in location else ""


def is_local(location: str) -> bool:
    """Whether a checkpoint is a folder of this machine, not a Hadoop URI of something else."""
    return scheme(location) in HERE


def local_path(location: str) -> str:
    """The folder of a location that is one of this machine."""
    return location.removeprefix("file://").removeprefix("file:")


def folder_of(location: str) -> str:
    """The whole path of a location that is one of this machine; empty for others."""
    return str(Path(local_path(location)).absolute()) if is_local(location) else ""


def hadoop_uri(location: str) -> str:
    """Return a location as Hadoop's clients find it, whatever their default file system is."""
    return f"file:{folder_of(location)}" if is_local(location) else location


def is_s3(location: str) -> bool:
    """Return whether a checkpoint lies on an S3 endpoint."""
    return scheme(location) in S3


def is_gs(location: str) -> bool:
    """Return whether a checkpoint lies in Google's object store."""
    return scheme(location) in GS


def _reason(error: Exception) -> str:
    """Without what its client puts around it, and without Java's trace."""
    text = str(error) or type(error).__name__
    if within := WRAPPED.search(text):
        text = within[1] or within[2]
    return re.split(r"\n|\\n", text)[0].rstrip(". ")[:400]


def _open(location: str, spark: Mapping[str, str]) -> tuple[fs.FileSystem, str]:
    rest = location.partition("://")[2]
    if is_local(location):
        return fs.LocalFileSystem(), local_path(location)
    if is_s3(location):
        return fs.S3FileSystem(**_s3_options(_settings(spark, "fs.s3a."))), rest
    if is_gs(location):
        return fs.GcsFileSystem(**_gs_options(_settings(spark, "fs.gs."))), rest
    if scheme(location) in HDFS:
        return _hdfs(location, _settings(spark)), urlsplit(location).path
    try:
        files, path = fs.FileSystem.from_uri(location)
    except ValueError as error:
        raise ConfigError(
            f"service.checkpoint = {location}: {error}.",
            "Nothing was started.",
            "Write a folder, or a URI of hdfs://, s3a:// or gs://.",
        ) from error
    return files, path


def _settings(spark: Mapping[str, str], prefix: str = "") -> dict[str, str]:
    """What Spark passes to Hadoop's client of names that begin so."""
    begin = HADOOP + prefix
    return {
        name.removeprefix(begin): str(value)
        for name, value in spark.items()
        if name.startswith(begin)
    }


def _s3_options(settings: dict[str, str]) -> dict[str, Any]:
    """For Arrow's client; the rest is the environment's in both."""
    before, _, address = settings.get("endpoint", "").rpartition("://")
    plain = before == "http" or settings.get("connection.ssl.enabled") == "false"
    options = {
        "endpoint_override": address,
        "access_key": settings.get("access.key"),
        "secret_key": settings.get("secret.key"),
        "session_token": settings.get("session.token"),
        "region": settings.get("endpoint.region"),
        "scheme": "http" if plain else "",
    }
    return {name: value for name, value in options.items() if value}


def _gs_options(settings: dict[str, str]) -> dict[str, Any]:
    """For Arrow's client; who we are is the environment's in both."""
    before, _, address = settings.get("storage.root.url", "").rpartition("://")
    options = {
        "endpoint_override": address.rstrip("/"),
        "scheme": before,
        "anonymous": settings.get("auth.type") == "UNAUTHENTICATED",
        "project_id": settings.get("project.id"),
        "retry_time_limit": timedelta(seconds=GS_SECONDS_MAX),
    }
    return {name: value for name, value in options.items() if value}


class _Replacing(fs.FSSpecHandler):  # type: ignore[misc]
    """Moves over a file that is there, in one step, as other file systems of Arrow do."""

    def move(self, src: str, dest: str) -> None:
        self.fs.mv(src, dest, overwrite=True)


def _hdfs(location: str, settings: dict[str, str]) -> fs.FileSystem:
    """HDFS without Java: commands that only look need no JVM."""
    try:
        from hdfs_native.fsspec import HdfsFileSystem  # noqa: PLC0415  (for who has HDFS)
    except ImportError as error:
        raise ConfigError(
            f"The checkpoint {location} needs the package hdfs-native.",
            "Nothing was started.",
            "Install it: pip install 'spark-sequencer[hdfs]'.",
        ) from error
    parts = urlsplit(location)
    words = {HDFS_ATTEMPTS: HDFS_ATTEMPTS_MAX, **settings}
    return fs.PyFileSystem(_Replacing(HdfsFileSystem(parts.hostname, parts.port, **words)))
