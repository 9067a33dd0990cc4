"""A Kerberos realm of its own: MIT's key distribution center on a free port, keytabs in a folder."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from streaming.kafka.ports import HOST, free_port
from tests.kafka_helpers import SECONDS_MAX

REALM = "TEST"
CLOCK_SKEW_SECONDS = 5
"""A ticket is good for so much longer."""
TOOLS = ("krb5kdc", "kdb5_util", "kadmin.local")
SEARCHED = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])


@dataclass(frozen=True, slots=True)
class Realm:
    """``settings`` is a krb5.conf, for Java and (as KRB5_CONFIG) for MIT's library.

    ``center``: the process that gives tickets.
    """

    folder: Path
    settings: Path
    center: subprocess.Popen[bytes] | None = None

    def keytab(self, principal: str) -> Path:
        """The key of a principal, who is new."""
        path = self.folder / f"{principal.replace('/', '-')}.keytab"
        self.run("kadmin.local", "addprinc", "-randkey", principal)
        self.run("kadmin.local", "ktadd", "-k", str(path), principal)
        return path

    def run(self, name: str, *words: str) -> None:
        command = [found(name), *words]
        done = subprocess.run(
            command, env=self.environment(), capture_output=True, text=True, timeout=60, check=False
        )
        assert not done.returncode, f"{command}: {done.stderr}"

    def environment(self) -> dict[str, str]:
        own = {"KRB5_CONFIG": self.settings, "KRB5_KDC_PROFILE": self.folder / "kdc.conf"}
        return {**os.environ, **{name: str(path) for name, path in own.items()}}


def missing() -> str | None:
    """What is not there of what a realm, and a client of it, needs."""
    if importlib.util.find_spec("gssapi") is None:
        return "Python's gssapi"
    return next((name for name in TOOLS if found(name) is None), None)


def found(name: str) -> str | None:
    return shutil.which(name, path=SEARCHED)


@contextmanager
def running(folder: Path, ticket_seconds: int = 86_400) -> Iterator[Realm]:
    """A realm with a center that answers."""
    folder.mkdir(parents=True)
    port = free_port()
    settings = folder / "krb5.conf"
    settings.write_text(
        f"[libdefaults]\nticket_lifetime = {ticket_seconds}s\nclockskew = {CLOCK_SKEW_SECONDS}\n"
        f"default_realm = {REALM}\ndns_lookup_kdc = false\ndns_lookup_realm = false\n"
        "dns_canonicalize_hostname = false\nrdns = false\n"
        f"[realms]\n{REALM} = {{\n kdc = {HOST}:{port}\n}}\n"
    )
    (folder / "kdc.conf").write_text(
        f"[kdcdefaults]\nkdc_listen = {HOST}:{port}\nkdc_tcp_listen = {HOST}:{port}\n"
        f"[realms]\n{REALM} = {{\n database_name = {folder}/principal\n"
        f" key_stash_file = {folder}/stash\n acl_file = {folder}/acl\n"
        f" max_life = {ticket_seconds}s\n}}\n"
    )
    realm = Realm(folder, settings)
    realm.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
    with (folder / "log").open("wb") as log:
        center = subprocess.Popen(
            [found("krb5kdc"), "-n"], env=realm.environment(), stdout=log, stderr=log
        )
    try:
        deadline = time.monotonic() + SECONDS_MAX
        while not _listens(port):
            assert center.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield replace(realm, center=center)
    finally:
        center.terminate()
        center.wait(SECONDS_MAX)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
