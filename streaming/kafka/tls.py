"""TLS settings for our own connections, from librdkafka's words (`streaming.kafka.credentials`)."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streaming.errors import ConfigError, FileUnusable

SYSTEM = "probe"
"""librdkafka's word for the system's own authorities."""

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
Given = Mapping[str, str]


def context(words: Given) -> ssl.SSLContext:
    """Return settings for a broker, with the current files: they may be renewed.

    FileUnusable where one cannot be read, or is not what it should be; ConfigError.
    """
    found = _trusting(words, "ssl.ca.")
    if "ssl.crl.location" in words:
        _revoke(found, words["ssl.crl.location"])
    if words.get("ssl.endpoint.identification.algorithm", "https").lower() != "https":
        found.check_hostname = False
    if words.get("enable.ssl.certificate.verification") == "false":
        found.check_hostname = False
        found.verify_mode = ssl.CERT_NONE
    if "ssl.enabled.protocols" in words:
        _limit(found, words["ssl.enabled.protocols"])
    if "ssl.cipher.suites" in words:
        _cipher(found, words["ssl.cipher.suites"])
    if any(name.startswith("ssl.certificate.") for name in words):
        _identify(found, words)
    return found


def authority(words: Given) -> ssl.SSLContext:
    """Return settings for an identity provider's address; ConfigError likewise."""
    return _trusting(words, "https.ca.")


def trusting(**authorities: Any) -> ssl.SSLContext:
    """Return Python's settings; private authorities need no more extensions than for librdkafka.

    From 3.13 on Python refuses many that it took before, such as those without key usage.
    """
    found = ssl.create_default_context(**authorities)
    found.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return found


def _trusting(words: Given, prefix: str) -> ssl.SSLContext:
    location = words.get(f"{prefix}location", SYSTEM)
    text = words.get(f"{prefix}pem")
    is_folder = Path(location).is_dir()
    try:
        return trusting(
            cafile=None if is_folder or location == SYSTEM else location,
            capath=location if is_folder else None,
            cadata=text,
        )
    except (OSError, ValueError) as error:
        name, what = ("location", location) if text is None else ("pem", "the text")
        raise _unusable(prefix + name, what, error) from error


def _revoke(found: ssl.SSLContext, location: str) -> None:
    try:
        found.load_verify_locations(location)
    except OSError as error:
        raise _unusable("ssl.crl.location", location, error) from error
    found.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _limit(found: ssl.SSLContext, text: str) -> None:
    """Allow the named versions of TLS; ConfigError where they are not next to each other."""
    names = [name.strip() for name in text.split(",")]
    versions = sorted(VERSIONS[name] for name in names if name in VERSIONS)
    if not versions:
        raise ConfigError(
            f"kafka.properties.ssl.enabled.protocols: {text} has no version that is secure.",
            "Nothing was started.",
            f"Write one of {', '.join(VERSIONS)}, or both.",
        )
    found.minimum_version, found.maximum_version = versions[0], versions[-1]


def _cipher(found: ssl.SSLContext, text: str) -> None:
    try:
        found.set_ciphers(text.replace(" ", "").replace(",", ":"))
    except ssl.SSLError as error:
        raise ConfigError(
            "kafka.properties.ssl.cipher.suites: OpenSSL knows none of them.",
            "Nothing was started.",
            "Write OpenSSL's names (`openssl ciphers`), with colons between them.",
        ) from error


def _identify(found: ssl.SSLContext, words: Given) -> None:
    """Load our certificate and its key.

    Python reads them from files alone: texts go to short-lived ones.
    """
    with tempfile.TemporaryDirectory() as folder:  # of this user alone
        certificate, key = (
            words.get(f"ssl.{part}.location") or _file(Path(folder, part), words, part)
            for part in ("certificate", "key")
        )
        try:
            # Without a password OpenSSL would ask the terminal for it.
            found.load_cert_chain(certificate, key, words.get("ssl.key.password", ""))
        except OSError as error:
            raise _unusable("ssl.certificate", f"{certificate} with {key}", error) from error


def _file(path: Path, words: Given, part: str) -> str:
    path.write_text(words.get(f"ssl.{part}.pem", ""), encoding="utf-8")
    return str(path)


def _unusable(name: str, what: str, error: Exception) -> FileUnusable:
    why = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return FileUnusable(
        f"kafka.properties.{name}: {what} cannot be used: {why}.",
        "Nothing was started.",
        "Name PEM files that the service can read (of a key with a password, with "
        "ssl.key.password).",
    )
