"""What checkpoints lie on besides folders, here: moto's server for S3, HDFS, fake-gcs-server.

moto is in a Python of its own: its clients of AWS want older packages than the service has.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Self

import pytest
from pyarrow import fs

from streaming.errors import SequencerError, StorageUnavailable
from streaming.kafka.jars import cache_root, fetched, java, pyspark_folder
from streaming.kafka.ports import HOST, free_port
from streaming.storage.files import Files

MOTO = "moto[server]==5.2.5"
FAKE_GCS = "github.com/fsouza/fake-gcs-server@v1.56.1"
MOTO_SERVER = Path(__file__).with_name("moto_server.py")
IVY_HDFS = Path(__file__).with_name("ivy-hdfs.xml")
START_SECONDS_MAX = 60
END_SECONDS_MAX = 30
INSTALL_SECONDS_MAX = 300
BUCKET = "checkpoints"


class Storage:
    """A server, and a place there; a context manager that ends it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.processes: list[subprocess.Popen[bytes]] = []

    def uri(self, name: str) -> str:
        """Where a checkpoint of that name is."""
        raise NotImplementedError

    def spark(self) -> dict[str, str]:
        """What [spark] says of it."""
        return {}

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(END_SECONDS_MAX)
        self.processes.clear()

    def _run(self, *command: str, port: int | None = None) -> None:
        """A process that ends with this; returns when it listens."""
        log = self.folder / f"{time.monotonic_ns()}.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes.append(process)
        deadline = time.monotonic() + START_SECONDS_MAX
        while not _listens(port or self.port):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)


class S3(Storage):
    def uri(self, name: str) -> str:
        return f"s3a://{BUCKET}/{name}"

    def _start(self) -> None:
        self._run(_moto(), str(MOTO_SERVER), HOST, str(self.port), str(self.folder))
        fs.S3FileSystem(
            endpoint_override=f"{HOST}:{self.port}",
            scheme="http",
            access_key="test",
            secret_key="test",
            region="us-east-1",
            allow_bucket_creation=True,
        ).create_dir(BUCKET)

    def refuse(self, pattern: str) -> None:
        """Take no write of objects whose paths have the pattern, from now on; "": take all."""
        refused, written = self.folder / "refused", self.folder / "refused.new"
        if pattern:
            written.write_text(pattern)
            written.replace(refused)
        else:
            refused.unlink()

    def refusals(self) -> list[str]:
        """The paths of the writes that were refused."""
        refusals = self.folder / "refusals"
        return refusals.read_text().splitlines() if refusals.exists() else []

    def spark(self) -> dict[str, str]:
        words = {
            "endpoint": f"http://{HOST}:{self.port}",
            "endpoint.region": "us-east-1",
            "access.key": "test",
            "secret.key": "test",
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
        }
        return {f"spark.hadoop.fs.s3a.{name}": value for name, value in words.items()}


class Hdfs(Storage):
    """A NameNode and a DataNode."""

    def uri(self, name: str) -> str:
        return f"hdfs://{HOST}:{self.port}/{name}"

    def _start(self) -> None:
        try:
            jars = fetched("hdfs", IVY_HDFS)
        except SequencerError as error:
            pytest.skip(f"HDFS cannot be had: {error.message}")
        beside = [each for name in CLIENT for each in sorted(pyspark_folder().glob(f"jars/{name}"))]
        datanode = free_port()
        self._settings(datanode)
        path = os.pathsep.join(map(str, [self.folder, *jars, *beside]))
        command = [java(), "-Xmx256m", "-cp", path]
        name = "org.apache.hadoop.hdfs.server.{0}.{1}".format
        self.namenode = [*command, name("namenode", "NameNode")]
        subprocess.run([*self.namenode, "-format"], check=True, timeout=START_SECONDS_MAX)
        self._run(*self.namenode)
        self._run(*command, name("datanode", "DataNode"), port=datanode)
        self._until_it_writes()

    def kill(self) -> None:
        """kill -9 of the NameNode."""
        process = self.processes.pop(0)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(END_SECONDS_MAX)

    def come_back(self) -> None:
        """The NameNode again, with all that it had."""
        self._run(*self.namenode)
        self.processes.insert(0, self.processes.pop())
        self._until_it_writes()

    def _until_it_writes(self) -> None:
        """The NameNode hears of the DataNode's blocks only a moment after both listen."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                Files(self.uri("begin"), {}).write("token", b"x")
            except StorageUnavailable:
                assert time.monotonic() < deadline
                time.sleep(0.2)
            else:
                return

    def _settings(self, datanode: int) -> None:
        settings = {
            "fs.defaultFS": self.uri(""),
            "hadoop.tmp.dir": str(self.folder / "hdfs"),
            "dfs.replication": "1",
            "dfs.namenode.safemode.extension": "0",
            "dfs.datanode.address": f"{HOST}:{datanode}",
            **dict.fromkeys(OTHER_ADDRESSES, f"{HOST}:0"),
        }
        lines = "".join(
            f"<property><name>{name}</name><value>{value}</value></property>\n"
            for name, value in settings.items()
        )
        text = f"<configuration>\n{lines}</configuration>\n"
        (self.folder / "hdfs-site.xml").write_text(text)


class Gs(Storage):
    """Google's object store, as fake-gcs-server has it: conditions on writes, but no move."""

    def uri(self, name: str) -> str:
        return f"gs://{BUCKET}/{name}"

    def _start(self) -> None:
        where = ["-scheme", "http", "-host", HOST, "-port", str(self.port)]
        names = ["-public-host", f"{HOST}:{self.port}", "-external-url", self._url]
        self._run(_fake_gcs(), *where, *names, "-backend", "memory")
        bucket = json.dumps({"name": BUCKET}).encode()
        asked = urllib.request.Request(f"{self._url}/storage/v1/b", bucket)  # noqa: S310
        urllib.request.urlopen(asked, timeout=START_SECONDS_MAX).close()  # noqa: S310

    @property
    def _url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def spark(self) -> dict[str, str]:
        words = {
            "storage.root.url": f"{self._url}/",
            "auth.type": "UNAUTHENTICATED",
            "operation.move.enable": "false",
        }
        return {f"spark.hadoop.fs.gs.{name}": value for name, value in words.items()}


CLIENT = ("hadoop-client-*.jar", "*slf4j*.jar", "log4j-*.jar")
"""What of PySpark's jars the two need."""
OTHER_ADDRESSES = (
    "dfs.namenode.http-address",
    "dfs.datanode.ipc.address",
    "dfs.datanode.http.address",
)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def _moto() -> str:
    folder = cache_root() / "moto"
    python = folder / "bin" / "python"
    if not (folder / "bin" / "moto_server").exists():
        words = [sys.executable, "-m", "venv", "--clear", str(folder)]
        subprocess.run(words, check=True, timeout=INSTALL_SECONDS_MAX)
        install = [str(folder / "bin" / "pip"), "install", "--quiet", MOTO]
        done = subprocess.run(install, timeout=INSTALL_SECONDS_MAX, check=False)
        if done.returncode:
            pytest.skip(f"{MOTO} cannot be installed")
    return str(python)


def _fake_gcs() -> str:
    folder = cache_root()
    server = folder / "fake-gcs-server"
    if not server.exists():
        go = shutil.which("go")
        if go is None:
            pytest.skip("fake-gcs-server needs go")
        install = [go, "install", FAKE_GCS]
        own = {**os.environ, "GOBIN": str(folder)}
        done = subprocess.run(install, env=own, timeout=INSTALL_SECONDS_MAX, check=False)
        if done.returncode:
            pytest.skip(f"{FAKE_GCS} cannot be installed")
    return str(server)
