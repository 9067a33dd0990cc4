"""A broker that asks for TLS, names and rights; its certificates are made anew for each run."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streaming.kafka.embedded import PROTOCOLS, EmbeddedBroker
from streaming.kafka.ports import HOST, free_port
from tests import kerberos
from tests.kafka_helpers import SECONDS_MAX

USER = "alice"
PASSWORD = 'pa ss"wo\\rd;=$x#'
KEY_PASSWORD = "key secret"
STORE_PASSWORD = "changeit"
MUTUAL = "MUTUAL"  # the listener that wants a certificate of its clients, too
OAUTH = "OAUTH"  # the one that takes tokens; unsigned ones, as Kafka's built-in handler does
KERBEROS = "KERBEROS"  # the one that takes tickets, where a realm can be had
SERVICE = f"kafka/{HOST}"
SUPER = ("ANONYMOUS", USER, "CN=client")  # all others may do what they are granted

LOGIN = "org.apache.kafka.common.security"
EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
VALID = ("-days", "2")
JAVA = "JAVA_TOOL_OPTIONS"


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files: the authority's, and a client's with its key, plain and encrypted."""

    authority: Path
    other_authority: Path
    client: Path
    client_key: Path
    client_key_encrypted: Path
    java_truststore: Path
    java_keystore: Path


@dataclass(frozen=True, slots=True)
class SecureBroker:
    """One broker, and an address for each way to reach it.

    ``bootstrap`` is plain, for setting things up; ``sasl`` and ``sasl_ssl`` know USER with
    PASSWORD by PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512; ``oauth`` takes anybody's word for a name;
    ``kerberos`` takes tickets of the ``realm``, where there is one.
    """

    bootstrap: str
    ssl: str
    mutual: str
    oauth: str
    sasl: str
    sasl_ssl: str
    kerberos: str
    certificates: Certificates
    realm: kerberos.Realm | None

    def properties(
        self, way: str, mechanism: str = "SCRAM-SHA-512", user: str = USER
    ) -> dict[str, str]:
        """`[kafka] properties` for the address of that name, in librdkafka's words."""
        found = {
            "security.protocol": {
                "bootstrap": "PLAINTEXT",
                "ssl": "SSL",
                "mutual": "SSL",
                "sasl": "SASL_PLAINTEXT",
                "sasl_ssl": "SASL_SSL",
                "oauth": "SASL_PLAINTEXT",
                "kerberos": "SASL_PLAINTEXT",
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
                "sasl.username": user,
                "sasl.password": PASSWORD,
            }
        if way == "oauth":
            found |= {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required "
                f'unsecuredLoginStringClaim_sub="{user}";',
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": f"principal={user}",
            }
        if way == "kerberos":
            assert self.realm is not None
            found |= {
                "sasl.mechanism": "GSSAPI",
                "sasl.kerberos.principal": user,
                "sasl.kerberos.keytab": str(self.realm.folder / f"{user}.keytab"),
            }
        return found

    def grant(self, user: str, rights: Iterable[tuple[str, str, str]]) -> None:
        """Let a user do things: (operation, kind of resource, name, at its end * for a prefix)."""
        from confluent_kafka.admin import (
            AclBinding,
            AclOperation,
            AclPermissionType,
            AdminClient,
            ResourcePatternType,
            ResourceType,
        )

        kinds = {"TransactionalId": ResourceType.TRANSACTIONAL_ID}
        bindings = []
        for operation, kind, name in rights:
            pattern = ResourcePatternType.LITERAL
            if name.endswith("*"):
                name, pattern = name[:-1], ResourcePatternType.PREFIXED  # noqa: PLW2901
            bindings.append(
                AclBinding(
                    kinds.get(kind) or ResourceType[kind.upper()],
                    name,
                    pattern,
                    f"User:{user}",
                    "*",
                    AclOperation[operation.upper()],
                    AclPermissionType.ALLOW,
                )
            )
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.create_acls(bindings).values():
            future.result(30)

    def withdraw(self, user: str, topic: str) -> None:
        """Take from a user all that it may do with a topic."""
        from confluent_kafka.admin import (
            AclBindingFilter,
            AclOperation,
            AclPermissionType,
            AdminClient,
            ResourcePatternType,
            ResourceType,
        )

        pattern, allowed = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
        found = AclBindingFilter(
            ResourceType.TOPIC, topic, pattern, f"User:{user}", None, AclOperation.ANY, allowed
        )
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.delete_acls([found]).values():
            assert future.result(30)


@contextmanager
def running(
    folder: Path, ticket_seconds: int = 86_400, more: Mapping[str, str] | None = None
) -> Iterator[SecureBroker]:
    """Start one; ``folder`` gets its data and the certificates; ``more``: properties."""
    certificates, keystore = make_certificates(folder / "certificates")
    with ExitStack() as stack:
        realm, java = None, {}
        names = ["SSL", MUTUAL, OAUTH, "SASL_PLAINTEXT", "SASL_SSL"]
        if kerberos.missing() is None:
            realm = stack.enter_context(kerberos.running(folder / "realm", ticket_seconds))
            realm.keytab(USER)
            stack.enter_context(_environment(KRB5_CONFIG=str(realm.settings)))
            java = {JAVA: f"{os.environ[JAVA]} -Djava.security.krb5.conf={realm.settings}"}
            names.append(KERBEROS)
        ports = {name: free_port() for name in names}
        properties = _properties(ports, keystore, certificates.authority)
        if realm is not None:
            properties |= _ticket_properties(realm.keytab(SERVICE))
        properties |= more or {}
        with _environment(**java):
            embedded = EmbeddedBroker(folder / "kafka", properties=properties).start()
        stack.callback(embedded.stop)
        add_user(embedded.bootstrap, USER)
        addresses = {name: f"{HOST}:{port}" for name, port in ports.items()}
        broker = SecureBroker(
            bootstrap=embedded.bootstrap,
            ssl=addresses["SSL"],
            mutual=addresses[MUTUAL],
            oauth=addresses[OAUTH],
            sasl=addresses["SASL_PLAINTEXT"],
            sasl_ssl=addresses["SASL_SSL"],
            kerberos=addresses.get(KERBEROS, ""),
            certificates=certificates,
            realm=realm,
        )
        _wait_until_known(broker)
        yield broker


def _ticket_properties(keytab: Path) -> dict[str, str]:
    name = f"listener.name.{KERBEROS.lower()}"
    return {
        f"{name}.sasl.enabled.mechanisms": "GSSAPI",
        f"{name}.gssapi.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required "
        f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="{SERVICE}@{kerberos.REALM}";',
        "sasl.kerberos.service.name": "kafka",
    }


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _properties(ports: dict[str, int], keystore: Path, authority: Path) -> dict[str, str]:
    quoted = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    plain = f'{LOGIN}.plain.PlainLoginModule required user_{USER}="{quoted}";'
    scram = f"{LOGIN}.scram.ScramLoginModule required;"
    protocols = {name: name for name in PROTOCOLS}
    protocols |= {MUTUAL: "SSL", "CONTROLLER": "PLAINTEXT"}
    protocols |= dict.fromkeys((OAUTH, KERBEROS), "SASL_PLAINTEXT")
    found = {
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in protocols.items()),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keystore),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority),
        f"listener.name.{MUTUAL.lower()}.ssl.client.auth": "required",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": ";".join(f"User:{name}" for name in SUPER),
    }
    oauth = f"listener.name.{OAUTH.lower()}"
    found[f"{oauth}.sasl.enabled.mechanisms"] = "OAUTHBEARER"
    found[f"{oauth}.oauthbearer.sasl.jaas.config"] = (
        f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required;"
    )
    for listener in ("sasl_plaintext", "sasl_ssl"):
        name = f"listener.name.{listener}"
        found[f"{name}.sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
        found[f"{name}.plain.sasl.jaas.config"] = plain
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            found[f"{name}.{mechanism}.sasl.jaas.config"] = scram
    return found


def add_user(bootstrap: str, user: str) -> None:
    """A user with PASSWORD, by SCRAM."""
    from confluent_kafka.admin import (
        AdminClient,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        wanted = UserScramCredentialUpsertion(
            user, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode()
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
    _openssl(
        folder, "pkcs12", "-export", "-in", "client.pem", "-inkey", "client.key", "-out",
        "keys.jks", "-passout", f"pass:{STORE_PASSWORD}",
    )  # fmt: skip
    return Certificates(*(folder / name for name in (*names, "trust.jks", "keys.jks"))), both


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
