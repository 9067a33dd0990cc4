"""Names, passwords, certificates: what `[kafka] properties` say of them, in whichever words.

Kafka's Java client and librdkafka say the same things differently. Each function gives what one
client wants; where the user wrote that client's own words, they stay as they are.

==========================  ==============================================================
librdkafka                  Java
==========================  ==============================================================
sasl.mechanism(s)           sasl.mechanism
sasl.username, .password    sasl.jaas.config (PLAIN, SCRAM)
ssl.ca.location, .pem       ssl.truststore.location, .certificates, with type PEM
ssl.certificate.*, .key.*   ssl.keystore.*, with type PEM (both in one file, or as text)
ssl.keystore.location       the same, with type PKCS12
==========================  ==============================================================
"""

from __future__ import annotations

import re
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streaming.errors import ConfigError

Given = Mapping[str, str]

LOGIN = "org.apache.kafka.common.security"
WITH_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
JAAS = re.compile(
    r"""\b(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))"""
)
SYSTEM = "probe"
"""librdkafka's word for the system's own authorities."""
OLD_KEY = re.compile(r"-----BEGIN (RSA|EC|DSA) PRIVATE KEY-----")
PEM_REMEDY = (
    "Write PEM files instead: ssl.ca.location (and ssl.certificate.location, ssl.key.location); "
    "keytool -importkeystore -srckeystore STORE.jks -destkeystore STORE.p12 -deststoretype PKCS12, "
    "then openssl pkcs12 -in STORE.p12 -nodes. (Where the store is of such a kind already, say so: "
    "ssl.truststore.type = PEM, ssl.keystore.type = PEM or PKCS12.)"
)


def java(properties: Given) -> dict[str, str]:
    """What Java wants, of what is not given in its words."""
    out: dict[str, str] = {}
    mechanism, user, password = login(properties)
    if mechanism:
        out["sasl.mechanism"] = mechanism
    if user is not None and "sasl.jaas.config" not in properties:
        kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        out["sasl.jaas.config"] = (
            f"{LOGIN}.{kind}LoginModule required "
            f"username={_quoted(user)} password={_quoted(password)};"
        )
    if not _any(properties, "ssl.truststore."):
        out |= _java_truststore(properties)
    if not _any(properties, "ssl.keystore."):
        out |= _java_keystore(properties)
    return out


def librdkafka(properties: Given) -> dict[str, str]:
    """What librdkafka wants, of what is not given in its words."""
    out: dict[str, str] = {}
    mechanism, user, password = login(properties)
    if mechanism:
        out["sasl.mechanisms"] = mechanism
    if user is not None:
        out["sasl.username"], out["sasl.password"] = user, password
    if not _any(properties, "ssl.ca."):
        if "ssl.truststore.certificates" in properties:
            out["ssl.ca.pem"] = properties["ssl.truststore.certificates"]
        elif "ssl.truststore.location" in properties:
            _must_be(properties, "truststore", "PEM")
            out["ssl.ca.location"] = properties["ssl.truststore.location"]
    if not _any(properties, "ssl.certificate."):
        if "ssl.keystore.certificate.chain" in properties:
            out["ssl.certificate.pem"] = properties["ssl.keystore.certificate.chain"]
            out["ssl.key.pem"] = properties.get("ssl.keystore.key", "")
        elif _must_be(properties, "keystore", "PEM", "PKCS12") == "PEM":
            store = properties["ssl.keystore.location"]
            out["ssl.certificate.location"] = out["ssl.key.location"] = store
    return out


def drop_foreign_store(out: dict[str, Any], properties: Given) -> None:
    """Take a Java key store's location and password away where librdkafka has the PEM words.

    It reads PKCS#12 alone under that name, which Java uses for any kind of store.
    """
    if "ssl.certificate.location" in out or "ssl.certificate.pem" in out:
        for name in ("ssl.keystore.location", "ssl.keystore.password"):
            out.pop(name, None)
    elif "ssl.keystore.location" in properties:
        _must_be(properties, "keystore", "PKCS12")


def kafka_python(out: Mapping[str, str]) -> dict[str, Any]:
    """What kafka-python wants, from librdkafka's words."""
    if "ssl.keystore.location" in out:
        raise _no_pem("keystore")
    arguments: dict[str, Any] = {}
    names = {
        "sasl.mechanisms": "sasl_mechanism",
        "sasl.username": "sasl_plain_username",
        "sasl.password": "sasl_plain_password",
        "ssl.ca.location": "ssl_cafile",
        "ssl.certificate.location": "ssl_certfile",
        "ssl.key.location": "ssl_keyfile",
        "ssl.key.password": "ssl_password",
    }
    arguments |= {to: out[name] for name, to in names.items() if name in out}
    if arguments.get("sasl_mechanism") == "OAUTHBEARER":
        from streaming.kafka import tokens  # noqa: PLC0415  (imports kafka-python)

        arguments["sasl_oauth_token_provider"] = tokens.provider(out)
    authorities = _authorities(out)
    if authorities is None:
        arguments.pop("ssl_cafile", None)
    named = out.get("ssl.endpoint.identification.algorithm") != "none"
    if not named:
        arguments["ssl_check_hostname"] = False
    own_context = "ssl.crl.location" in out or any(name.endswith(".pem") for name in out)
    if own_context or _is_folder(authorities):
        arguments["ssl_context"] = _context(out, named=named)
    return arguments


def login(properties: Given) -> tuple[str, str | None, str]:
    """Mechanism, name and password; ConfigError where one of them is missing."""
    mechanism = (
        properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or ""
    ).upper()
    jaas = properties.get("sasl.jaas.config")
    user, password = properties.get("sasl.username"), properties.get("sasl.password")
    if user is None and jaas is not None and mechanism in WITH_PASSWORD:
        options = {name: _unquoted(texts) for name, *texts in JAAS.findall(jaas)}
        if len(options) < 2:
            raise ConfigError(
                "kafka.properties.sasl.jaas.config names no username and password.",
                "Nothing was started.",
                'Write …LoginModule required username="…" password="…"; or sasl.username and '
                "sasl.password.",
            )
        user, password = options["username"], options["password"]
    if user is not None and (password is None or not mechanism):
        lacks = "sasl.password" if password is None else "sasl.mechanism"
        raise ConfigError(
            f"kafka.properties has sasl.username, but no {lacks}.",
            "Nothing was started.",
            f"Add it; mechanisms with a password are {', '.join(WITH_PASSWORD)}.",
        )
    return mechanism, user, password or ""


def _java_truststore(properties: Given) -> dict[str, str]:
    if "ssl.ca.pem" in properties:
        return {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": properties["ssl.ca.pem"],
        }
    authorities = _authorities(properties)
    if authorities is None:
        return {}
    _text(properties, "ssl.ca.location")
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": authorities}


def _java_keystore(properties: Given) -> dict[str, str]:
    if not _any(properties, "ssl.certificate."):
        return {}
    chain, key = _text(properties, "ssl.certificate."), _text(properties, "ssl.key.")
    if old := OLD_KEY.search(key):
        raise ConfigError(
            f"The key of kafka.properties has the old format ({old.group(1)} PRIVATE KEY), which "
            "Java does not read.",
            "Nothing was started.",
            "Convert it: openssl pkcs8 -topk8 -in KEY -out KEY.pem (-nocrypt for no password).",
        )
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": chain,
        "ssl.keystore.key": key,
    }


def _authorities(properties: Given) -> str | None:
    """The file or folder of the authorities in librdkafka's words; None for the system's own."""
    location = properties.get("ssl.ca.location", SYSTEM)
    return None if location == SYSTEM else location


def _is_folder(authorities: str | None) -> bool:
    return authorities is not None and Path(authorities).is_dir()


def _must_be(properties: Given, store: str, *kinds: str) -> str | None:
    """The store's type, None where there is no store; ConfigError where it is another."""
    if f"ssl.{store}.location" not in properties:
        return None
    kind = properties.get(f"ssl.{store}.type", "JKS").upper()
    if kind not in kinds:
        raise _no_pem(store)
    return kind


def _no_pem(store: str) -> ConfigError:
    return ConfigError(
        f"kafka.properties.ssl.{store}.location is a key store that not all clients can read.",
        "Nothing was started.",
        PEM_REMEDY,
    )


def _any(properties: Given, prefix: str) -> bool:
    return any(name.startswith(prefix) for name in properties)


def _text(properties: Given, prefix: str) -> str:
    """The PEM text of ``prefix`` pem, or of the file at ``prefix`` location."""
    prefix = prefix.removesuffix("location")
    if f"{prefix}pem" in properties:
        return properties[f"{prefix}pem"]
    path = properties.get(f"{prefix}location", "")
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no PEM file"
        problem = f"{path} cannot be read: {why}" if path else "is missing"
        raise ConfigError(
            f"kafka.properties.{prefix}location: {problem}.",
            "Nothing was started.",
            "Name a PEM file that the service can read.",
        ) from error


def _context(out: Mapping[str, str], *, named: bool) -> ssl.SSLContext:
    """Python's TLS settings, where kafka-python cannot make them by itself.

    Python reads keys from files alone: texts go to short-lived ones.
    """
    authorities = _authorities(out)
    is_folder = _is_folder(authorities)
    context = ssl.create_default_context(
        cafile=None if is_folder else authorities,
        capath=authorities if is_folder else None,
        cadata=out.get("ssl.ca.pem"),
    )
    if "ssl.crl.location" in out:
        context.load_verify_locations(out["ssl.crl.location"])
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    context.check_hostname = named
    if _any(out, "ssl.certificate."):
        with tempfile.TemporaryDirectory() as folder:  # of this user alone
            certificate, key = Path(folder) / "certificate", Path(folder) / "key"
            certificate.write_text(_text(out, "ssl.certificate."), encoding="utf-8")
            key.write_text(_text(out, "ssl.key."), encoding="utf-8")
            context.load_cert_chain(certificate, key, out.get("ssl.key.password", ""))
    return context


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _unquoted(texts: list[str]) -> str:
    double, single, bare = texts
    return re.sub(r"\\(.)", r"\1", double or single) or bare
