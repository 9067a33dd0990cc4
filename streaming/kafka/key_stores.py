"""Conversion of Java's key stores to PEM, which OpenSSL, and so Python and librdkafka, can read.

A file's type is recognised by its first bytes, not by its name or `ssl.keystore.type`: Java's
keytool has written PKCS#12 since version 9, also into files named `.jks`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from streaming.errors import FileUnusable

PEM_BEGIN = b"-----BEGIN"
JKS_BEGINS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""The first bytes of JKS and JCEKS, which have ciphers of their own."""

REMEDY = (
    "Convert it, and name the new file: keytool -importkeystore -srckeystore {0} "
    "-destkeystore {0}.p12 -deststoretype PKCS12."
)
PEM_REMEDY = (
    "Install spark-sequencer[keystores]; or convert it, and name the new file with ssl.ca.location "
    "(of a trust store), or with ssl.certificate.location and ssl.key.location: "
    "openssl pkcs12 -in {0} -nodes -out {0}.pem."
)


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A key store's contents as PEM: trusted certificates; our chain and its key, or nothing."""

    authorities: str
    chain: str
    key: str = field(repr=False)


def read(path: str, password: str | None, name: str) -> KeyStore | None:
    """Return a key store's contents; None if it is PEM already.

    ``name``: the prefix of its properties. Raises FileUnusable if it cannot be read.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise FileUnusable(
            f"kafka.properties.{name}.location: {path} cannot be read: {error.strerror}.",
            "Nothing was started.",
            "Name a file that the service can read.",
        ) from error
    if PEM_BEGIN in data:
        return None
    if data.startswith(JKS_BEGINS):
        raise _unreadable(path, name, "is a key store of an old kind (JKS)", REMEDY)
    return _pkcs12(data, path, password, name)


def _pkcs12(data: bytes, path: str, password: str | None, name: str) -> KeyStore:
    try:
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  (optional)
        from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415
    except ImportError as error:
        why = "is a PKCS#12 store, and Python's cryptography, which reads them, is not installed"
        raise _unreadable(path, name, why, PEM_REMEDY) from error
    try:
        found = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        why = f"cannot be opened as PKCS#12 with {name}.password"
        raise _unreadable(path, name, why, "Look at the file and at the password.") from error
    pem = serialization.Encoding.PEM
    others = [each.certificate.public_bytes(pem).decode() for each in found.additional_certs]
    own = found.cert.certificate.public_bytes(pem).decode() if found.cert is not None else ""
    key = b""
    if found.key is not None:
        key = found.key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    if name == "ssl.keystore" and not (own and key):
        raise _unreadable(path, name, "has no private key with its certificate", "Name another.")
    return KeyStore("".join(others), own + "".join(others), key.decode())


def _unreadable(path: str, name: str, why: str, remedy: str) -> FileUnusable:
    return FileUnusable(
        f"kafka.properties.{name}.location: {path} {why}.",
        "Nothing was started.",
        remedy.format(path),
    )
