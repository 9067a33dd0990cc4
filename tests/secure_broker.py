"""A broker that asks for TLS and for names; its certificates are made anew for each run."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streaming.kafka.embedded import HOST, PROTOCOLS, EmbeddedBroker, free_port
from tests.kafka_helpers import SECONDS_MAX

USER = "alice"
PASSWORD = 'pa ss"wo\\rd;=$x#'
KEY_PASSWORD = "key secret"
STORE_PASSWORD = "changeit"
MUTUAL = "MUTUAL"  # the listener that wants a certificate of its clients, too

LOGIN = "org.apache.kafka.common.security"
EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
VALID = ("-days", "2")


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files: the authority's, and a client's with its key, plain and encrypted."""

    authority: Path
    other_authority: Path
    client: Path
    client_key: Path
    client_key_encrypted: Path
    java_truststore: Path


@dataclass(frozen=True, slots=True)
class SecureBroker:
    """One broker, and an address for each way to reach it.

    ``bootstrap`` is plain, for setting things up; ``sasl`` and ``sasl_ssl`` know USER with
    PASSWORD by PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512.
    """

    bootstrap: str
    ssl: str
    mutual: str
    sasl: str
    sasl_ssl: str
    certificates: Certificates

    def properties(self, way: str, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
        """`[kafka] properties` for the address of that name, in librdkafka's words."""
        found = {
            "security.protocol": {
                "bootstrap": "PLAINTEXT",
                "ssl": "SSL",
                "mutual": "SSL",
                "sasl": "SASL_PLAINTEXT",
                "sasl_ssl": "SASL_SSL",
            }[way]
        }
        if "ssl" in way or way == "mutual":
            found["ssl.ca.location"] = str(self.certificates.authority)
        if way == "mutual":
            found["ssl.certificate.location"] = str(self.certificates.client)
            found["ssl.key.location"] = str(self.certificates.client_key)
        if "sasl" in way:
            found |= {
                "sasl.mechanism": mechanism,
                "sasl.username": USER,
                "sasl.password": PASSWORD,
            }
        return found


@contextmanager
def running(folder: Path) -> Iterator[SecureBroker]:
    """Start one; ``folder`` gets its data and the certificates."""
    certificates, keystore = make_certificates(folder / "certificates")
    ports = {name: free_port() for name in ("SSL", MUTUAL, "SASL_PLAINTEXT", "SASL_SSL")}
    properties = _properties(ports, keystore, certificates.authority)
    with EmbeddedBroker(folder / "kafka", properties=properties) as embedded:
        _add_user(embedded.bootstrap)
        broker = SecureBroker(
            embedded.bootstrap,
            *(f"{HOST}:{port}" for port in ports.values()),
            certificates=certificates,
        )
        _wait_until_known(broker)
        yield broker


def _properties(ports: dict[str, int], keystore: Path, authority: Path) -> dict[str, str]:
    quoted = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    plain = f'{LOGIN}.plain.PlainLoginModule required user_{USER}="{quoted}";'
    scram = f"{LOGIN}.scram.ScramLoginModule required;"
    protocols = {name: name for name in PROTOCOLS} | {MUTUAL: "SSL", "CONTROLLER": "PLAINTEXT"}
    found = {
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in protocols.items()),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keystore),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority),
        f"listener.name.{MUTUAL.lower()}.ssl.client.auth": "required",
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        name = f"listener.name.{listener}"
        found[f"{name}.sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
        found[f"{name}.plain.sasl.jaas.config"] = plain
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            found[f"{name}.{mechanism}.sasl.jaas.config"] = scram
    return found


def _add_user(bootstrap: str) -> None:
    from confluent_kafka.admin import (
        AdminClient,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        wanted = UserScramCredentialUpsertion(
            USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode()
        )
        for future in admin.alter_user_scram_credentials([wanted]).values():
            future.result(30)


def _wait_until_known(broker: SecureBroker) -> None:
    """Until both of the user's passwords are good: they were taken, and become known after that."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    deadline = time.monotonic() + SECONDS_MAX
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        address = {"bootstrap.servers": broker.sasl, "log_level": 0}
        while True:
            try:
                AdminClient({**address, **broker.properties("sasl", mechanism)}).list_topics(
                    timeout=2
                )
                break
            except KafkaException:
                assert time.monotonic() < deadline, f"{USER} is not known by {mechanism}"


def make_certificates(folder: Path) -> tuple[Certificates, Path]:
    """Certificates for clients, and the broker's key and certificate in one PEM file."""
    folder.mkdir(parents=True)
    for name in ("authority", "other"):
        _openssl(
            folder, "req", "-x509", *EC, "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.pem",
            "-subj", f"/CN={name}", *VALID,
        )  # fmt: skip
    _sign(folder, "broker", f"subjectAltName=IP:{HOST},DNS:localhost")
    _sign(folder, "client", "extendedKeyUsage=clientAuth")
    _openssl(  # Java before 19 does not know openssl's own choice, PBES2
        folder, "pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", "-in", "client.key",
        "-out", "client-encrypted.key", "-passout", f"pass:{KEY_PASSWORD}",
    )  # fmt: skip
    both = folder / "broker-keystore.pem"
    both.touch(mode=0o600)
    both.write_text((folder / "broker.key").read_text() + (folder / "broker.pem").read_text())
    _run(
        folder, "keytool", "-importcert", "-noprompt", "-alias", "authority", "-file",
        "authority.pem", "-keystore", "trust.jks", "-storepass", STORE_PASSWORD,
    )  # fmt: skip
    names = ("authority.pem", "other.pem", "client.pem", "client.key", "client-encrypted.key")
    return Certificates(*(folder / name for name in (*names, "trust.jks"))), both


def _sign(folder: Path, name: str, extension: str) -> None:
    (folder / f"{name}.ext").write_text(extension)
    _openssl(
        folder, "req", *EC, "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr",
        "-subj", f"/CN={name}",
    )  # fmt: skip
    _openssl(
        folder, "x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", *VALID, "-CA",
        "authority.pem", "-CAkey", "authority.key", "-CAcreateserial", "-extfile", f"{name}.ext",
    )  # fmt: skip


def _openssl(folder: Path, *arguments: str) -> None:
    _run(folder, "openssl", *arguments)


def _run(folder: Path, *command: str) -> None:
    done: Any = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert not done.returncode, f"{command[:2]}: {done.stderr or done.stdout}"


def missing() -> str | None:
    """The command that is not there, of those that make certificates."""
    return next((name for name in ("openssl", "keytool") if not shutil.which(name)), None)
