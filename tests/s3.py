"""An S3 endpoint on this machine: moto's server, in a Python of its own.

Its clients of AWS want older packages than the service has.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import pytest
from pyarrow import fs

from streaming.kafka.embedded import HOST, free_port
from streaming.kafka.jars import cache_root

MOTO = "moto[server]==5.2.5"
START_SECONDS_MAX = 60
INSTALL_SECONDS_MAX = 300
BUCKET = "checkpoints"


class Endpoint:
    """The server and one bucket; a context manager."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.log = folder / "moto.log"

    def __enter__(self) -> Self:
        with self.log.open("w") as output:
            self.process = subprocess.Popen(
                [_server(), "-H", HOST, "-p", str(self.port)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._listens():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)
        fs.S3FileSystem(
            endpoint_override=f"{HOST}:{self.port}",
            scheme="http",
            access_key="test",
            secret_key="test",
            region="us-east-1",
            allow_bucket_creation=True,
        ).create_dir(BUCKET)
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def spark(self) -> dict[str, str]:
        """What [spark] says of it."""
        words = {
            "endpoint": f"http://{HOST}:{self.port}",
            "endpoint.region": "us-east-1",
            "access.key": "test",
            "secret.key": "test",
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
        }
        return {f"spark.hadoop.fs.s3a.{name}": value for name, value in words.items()}

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self.port)) == 0


def _server() -> str:
    folder = cache_root() / "moto"
    server = folder / "bin" / "moto_server"
    if not server.exists():
        words = [sys.executable, "-m", "venv", "--clear", str(folder)]
        subprocess.run(words, check=True, timeout=INSTALL_SECONDS_MAX)
        install = [str(folder / "bin" / "pip"), "install", "--quiet", MOTO]
        done = subprocess.run(install, timeout=INSTALL_SECONDS_MAX, check=False)
        if done.returncode:
            pytest.skip(f"{MOTO} cannot be installed")
    return str(server)
