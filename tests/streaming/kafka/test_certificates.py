"""Certificates in `[kafka] properties`: files, texts, stores; each client gets what it wants."""

import ssl
import subprocess

import pytest

from streaming.errors import ConfigError
from streaming.kafka import connection, credentials
from tests.secure_broker import KEY_PASSWORD
from tests.streaming.kafka.clients import config, told


def test_certificates_in_files(pem):
    given = {
        "ssl.ca.location": str(pem.authority),
        "ssl.certificate.location": str(pem.client),
        "ssl.key.location": str(pem.client_key_encrypted),
        "ssl.key.password": KEY_PASSWORD,
    }
    assert told(connection.confluent, given) == given
    for_java = told(connection.java, given)
    assert for_java == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(pem.authority),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": pem.client.read_text(),
        "ssl.keystore.key": pem.client_key_encrypted.read_text(),
        "ssl.key.password": KEY_PASSWORD,
    }
    assert told(connection.java, for_java) == for_java
    assert told(connection.confluent, for_java) == {
        "ssl.ca.location": str(pem.authority),
        "ssl.certificate.pem": pem.client.read_text(),
        "ssl.key.pem": pem.client_key_encrypted.read_text(),
        "ssl.key.password": KEY_PASSWORD,
    }
    assert told(connection.kafka_python, given) == {
        "ssl_cafile": str(pem.authority),
        "ssl_certfile": str(pem.client),
        "ssl_keyfile": str(pem.client_key_encrypted),
        "ssl_password": KEY_PASSWORD,
    }


def test_certificates_as_text(pem):
    given = {
        "ssl.ca.pem": pem.authority.read_text(),
        "ssl.certificate.pem": pem.client.read_text(),
        "ssl.key.pem": pem.client_key_encrypted.read_text(),
        "ssl.key.password": KEY_PASSWORD,
    }
    for_java = told(connection.java, given)
    assert for_java == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": given["ssl.ca.pem"],
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": given["ssl.certificate.pem"],
        "ssl.keystore.key": given["ssl.key.pem"],
        "ssl.key.password": KEY_PASSWORD,
    }
    assert told(connection.confluent, for_java) == given
    context = told(connection.kafka_python, given)["ssl_context"]
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    (authority,) = context.get_ca_certs()
    assert dict(each[0] for each in authority["subject"])["commonName"] == "authority"


def revocations(pem, folder):
    """An empty list, signed by the authority."""
    (folder / "index").touch()
    (folder / "settings").write_text(
        f"[ca]\ndefault_ca = d\n[d]\ndatabase = {folder}/index\ndefault_md = sha256\n"
    )
    key = pem.authority.with_suffix(".key")
    words = ("-gencrl", "-crldays", "2", "-cert", pem.authority, "-keyfile", key)
    command = ["openssl", "ca", "-config", folder / "settings", *words, "-out", folder / "crl.pem"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return str(folder / "crl.pem")


def test_what_kafka_python_cannot_be_told_in_words_is_a_context(pem, tmp_path):
    """It takes neither texts nor a folder of authorities, and fails at a list of revocations."""
    texts = {
        "ssl.certificate.pem": pem.client.read_text(),
        "ssl.key.pem": pem.client_key.read_text(),
    }
    system = credentials.kafka_python({**texts, "ssl.ca.location": "probe"})
    assert system["ssl_context"].verify_mode == ssl.CERT_REQUIRED
    folder = credentials.kafka_python({"ssl.ca.location": str(tmp_path)})["ssl_context"]
    assert not folder.get_ca_certs()  # a folder is looked into when a broker is met
    words = {"ssl.ca.location": str(pem.authority), "ssl.crl.location": revocations(pem, tmp_path)}
    context = credentials.kafka_python(words)["ssl_context"]
    assert context.verify_flags & ssl.VERIFY_CRL_CHECK_LEAF
    assert context.cert_store_stats()["crl"] == 1


def test_a_java_key_store_of_pem_is_both_certificate_and_key(pem, tmp_path):
    both = tmp_path / "both.pem"
    both.write_text(pem.client_key.read_text() + pem.client.read_text())
    given = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(both)}
    assert told(connection.java, given) == given
    assert told(connection.confluent, given) == {
        "ssl.certificate.location": str(both),
        "ssl.key.location": str(both),
    }


def test_pkcs12_is_read_by_two_of_three():
    given = {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": "a.p12",
        "ssl.keystore.password": "geheim",
    }
    assert told(connection.java, given) == given
    assert told(connection.confluent, given) == {
        "ssl.keystore.location": "a.p12",
        "ssl.keystore.password": "geheim",
    }
    with pytest.raises(ConfigError, match=r"openssl pkcs12"):
        connection.kafka_python(config(given))


def test_each_client_gets_its_own_words_where_both_are_given(pem):
    for_java = {
        "ssl.truststore.location": "a.jks",
        "ssl.truststore.password": "p",
        "ssl.keystore.location": "b.jks",
        "ssl.keystore.password": "p",
    }
    for_others = {
        "ssl.ca.location": str(pem.authority),
        "ssl.certificate.location": str(pem.client),
        "ssl.key.location": str(pem.client_key),
    }
    assert told(connection.java, for_java | for_others) == for_java
    assert told(connection.confluent, for_java | for_others) == for_others


@pytest.mark.parametrize("kind", [None, "JKS", "PKCS12"])
def test_a_trust_store_that_only_java_reads(kind):
    given = {"ssl.truststore.location": "a.jks", "ssl.truststore.password": "geheim"}
    given |= {"ssl.truststore.type": kind} if kind else {}
    assert told(connection.java, given) == given
    with pytest.raises(ConfigError, match=r"keytool -importkeystore .* openssl") as refused:
        connection.confluent(config(given))
    assert "geheim" not in str(refused.value)


def test_the_system_s_authorities():
    assert told(connection.java, {"ssl.ca.location": "probe"}) == {}
    assert told(connection.confluent, {"ssl.ca.location": "probe"}) == {"ssl.ca.location": "probe"}
    assert told(connection.kafka_python, {"ssl.ca.location": "probe"}) == {}


@pytest.mark.parametrize("spelling", ["", "none"])
def test_not_looking_at_the_broker_s_name(spelling):
    given = {"ssl.endpoint.identification.algorithm": spelling}
    assert told(connection.java, given) == {"ssl.endpoint.identification.algorithm": ""}
    assert told(connection.confluent, given) == {"ssl.endpoint.identification.algorithm": "none"}
    assert told(connection.kafka_python, given) == {"ssl_check_hostname": False}


@pytest.mark.parametrize("kind", ["RSA", "EC"])
def test_a_key_in_a_format_that_java_does_not_read(pem, tmp_path, kind):
    key = tmp_path / "old.key"
    key.write_text(f"-----BEGIN {kind} PRIVATE KEY-----\ngeheim\n-----END {kind} PRIVATE KEY-----")
    given = {"ssl.certificate.location": str(pem.client), "ssl.key.location": str(key)}
    with pytest.raises(ConfigError, match=rf"{kind} PRIVATE KEY.*openssl pkcs8 -topk8") as refused:
        connection.java(config(given))
    assert "geheim" not in str(refused.value)


def test_files_that_are_not_there_or_no_pem(pem, tmp_path):
    gone = {"ssl.ca.location": str(tmp_path / "ca.pem")}
    with pytest.raises(ConfigError, match=r"ssl\.ca\.location: .*ca\.pem cannot be read: No such"):
        connection.java(config(gone))
    lacking = {"ssl.certificate.location": str(pem.client)}
    with pytest.raises(ConfigError, match=r"ssl\.key\.location: is missing"):
        connection.java(config(lacking))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    binary = {"ssl.ca.location": str(tmp_path / "binary")}
    with pytest.raises(ConfigError, match="cannot be read: it is no PEM file"):
        connection.java(config(binary))
