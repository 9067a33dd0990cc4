"""Certificates in `[kafka] properties`: files, texts, stores; both clients get what they can read."""

import ssl
import subprocess

import pytest

from streaming.errors import FileUnusable
from streaming.kafka import client_settings, registry, tls
from tests.secure_broker import KEY_PASSWORD, STORE_PASSWORD
from tests.streaming.kafka.clients import config, told

TLS = {"security.protocol": "SSL"}


def context(given):
    return told(client_settings.kafka_python, {**TLS, **given})["ssl_context"]


def names(found):
    return {dict(each[0] for each in one["subject"])["commonName"] for one in found.get_ca_certs()}


def test_certificates_in_files(pem):
    given = {
        "ssl.ca.location": str(pem.authority),
        "ssl.certificate.location": str(pem.client),
        "ssl.key.location": str(pem.client_key_encrypted),
        "ssl.key.password": KEY_PASSWORD,
    }
    assert told(client_settings.confluent, given) == given
    found = context(given)
    assert found.verify_mode == ssl.CERT_REQUIRED
    assert found.check_hostname
    assert names(found) == {"authority"}


def test_authorities_need_no_key_usage(monkeypatch):
    """Python does not take them from 3.13 on; librdkafka, Java, and Python before it do."""
    made = ssl.create_default_context

    def strict(**authorities):
        found = made(**authorities)
        found.verify_flags |= ssl.VERIFY_X509_STRICT
        return found

    monkeypatch.setattr(ssl, "create_default_context", strict)
    for found in (tls.context({}), tls.authority({}), registry._context({})):
        assert not found.verify_flags & ssl.VERIFY_X509_STRICT


def test_certificates_as_text(pem):
    given = {
        "ssl.ca.pem": pem.authority.read_text(),
        "ssl.certificate.pem": pem.client.read_text(),
        "ssl.key.pem": pem.client_key_encrypted.read_text(),
        "ssl.key.password": KEY_PASSWORD,
    }
    of_java = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": given["ssl.ca.pem"],
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": given["ssl.certificate.pem"],
        "ssl.keystore.key": given["ssl.key.pem"],
        "ssl.key.password": KEY_PASSWORD,
    }
    for words in (given, of_java):
        assert told(client_settings.confluent, words) == given
        assert names(context(words)) == {"authority"}


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


def test_a_folder_of_authorities_and_a_list_of_revocations(pem, tmp_path):
    folder = context({"ssl.ca.location": str(tmp_path)})
    assert not folder.get_ca_certs()  # a folder is looked into when a broker is met
    revoked = {
        "ssl.ca.location": str(pem.authority),
        "ssl.crl.location": revocations(pem, tmp_path),
    }
    found = context(revoked)
    assert found.verify_flags & ssl.VERIFY_CRL_CHECK_LEAF
    assert found.cert_store_stats()["crl"] == 1


def test_a_java_key_store_of_pem_is_both_certificate_and_key(pem, tmp_path):
    both = tmp_path / "both.pem"
    both.write_text(pem.client_key.read_text() + pem.client.read_text())
    given = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(both)}
    assert told(client_settings.confluent, given) == {
        "ssl.certificate.location": str(both),
        "ssl.key.location": str(both),
    }
    context(given)


@pytest.mark.parametrize("kind", [None, "JKS", "PKCS12"])
def test_java_s_stores_of_pkcs12_whatever_they_are_called(pem, kind):
    """Java's keytool has written nothing else since version 9."""
    pytest.importorskip("cryptography")
    given = {
        "ssl.truststore.location": str(pem.java_truststore),
        "ssl.truststore.password": STORE_PASSWORD,
        "ssl.keystore.location": str(pem.java_keystore),
        "ssl.keystore.password": STORE_PASSWORD,
    }
    if kind:
        given |= {"ssl.truststore.type": kind, "ssl.keystore.type": kind}
    words = told(client_settings.confluent, given)
    assert set(words) == {"ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem"}
    assert words["ssl.ca.pem"].strip() == pem.authority.read_text().strip()
    assert "BEGIN PRIVATE KEY" in words["ssl.key.pem"]
    assert names(context(given)) == {"authority"}


@pytest.mark.parametrize("store", ["truststore", "keystore"])
def test_stores_that_cannot_be_opened(pem, tmp_path, store, monkeypatch):
    path = tmp_path / "store.jks"
    given = {f"ssl.{store}.location": str(path), f"ssl.{store}.password": "geheim"}

    def refused(match):
        with pytest.raises(FileUnusable, match=match) as why:
            client_settings.confluent(config(given))
        assert "geheim" not in str(why.value)

    refused(rf"ssl\.{store}\.location: .*store\.jks cannot be read: No such file")
    path.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    refused(r"an old kind \(JKS\).*keytool -importkeystore -srckeystore .*store\.jks -dest")
    path.write_bytes(pem.java_truststore.read_bytes())
    if store == "keystore":
        given["ssl.keystore.password"] = STORE_PASSWORD
        pytest.importorskip("cryptography")
        refused("has no private key")
    else:
        pytest.importorskip("cryptography")
        refused(r"cannot be opened as PKCS#12 with ssl\.truststore\.password")
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives", None)
    refused(r"spark-sequencer\[keystores\].*openssl pkcs12 -in .*store\.jks -nodes")


def test_librdkafka_s_words_count_where_both_are_given(pem):
    of_java = {
        "ssl.truststore.location": "a.jks",
        "ssl.truststore.password": "p",
        "ssl.keystore.location": "b.jks",
        "ssl.keystore.password": "p",
    }
    others = {
        "ssl.ca.location": str(pem.authority),
        "ssl.certificate.location": str(pem.client),
        "ssl.key.location": str(pem.client_key),
    }
    assert told(client_settings.confluent, of_java | others) == others


def test_the_system_s_authorities():
    assert told(client_settings.confluent, {"ssl.ca.location": "probe"}) == {
        "ssl.ca.location": "probe"
    }
    assert context({"ssl.ca.location": "probe"}).verify_mode == ssl.CERT_REQUIRED


@pytest.mark.parametrize("spelling", ["", "none", "NONE"])
def test_not_looking_at_the_broker_s_name(spelling):
    given = {"ssl.endpoint.identification.algorithm": spelling}
    assert told(client_settings.confluent, given) == {
        "ssl.endpoint.identification.algorithm": "none"
    }
    found = context(given)
    assert (found.check_hostname, found.verify_mode) == (False, ssl.CERT_REQUIRED)


def test_not_looking_at_the_broker_s_certificate():
    assert context({"enable.ssl.certificate.verification": False}).verify_mode == ssl.CERT_NONE


def test_versions_of_tls():
    found = context({"ssl.enabled.protocols": "TLSv1.3"})
    assert (found.minimum_version, found.maximum_version) == (ssl.TLSVersion.TLSv1_3,) * 2
    found = context({"ssl.enabled.protocols": "TLSv1.2,TLSv1.3"})
    assert (found.minimum_version, found.maximum_version) == tuple(tls.VERSIONS.values())


def test_files_that_are_not_there_or_no_pem(pem, tmp_path):
    def refused(given, match):
        with pytest.raises(FileUnusable, match=match):
            context(given)

    gone = {"ssl.ca.location": str(tmp_path / "ca.pem")}
    refused(gone, r"ssl\.ca\.location: .*ca\.pem cannot be used: No such file")
    refused({"ssl.certificate.location": str(pem.client)}, r"ssl\.certificate: .*cannot be used")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    refused({"ssl.ca.location": str(tmp_path / "binary")}, r"ssl\.ca\.location: .*binary cannot be")
    refused({"ssl.ca.pem": "no text of a certificate"}, r"ssl\.ca\.pem: the text cannot be used")
    refused({"ssl.crl.location": str(tmp_path / "binary")}, r"ssl\.crl\.location: .*cannot be used")


def test_an_encrypted_key_without_its_password_does_not_ask_the_terminal(pem):
    given = {
        "ssl.certificate.location": str(pem.client),
        "ssl.key.location": str(pem.client_key_encrypted),
    }
    with pytest.raises(FileUnusable, match=r"ssl\.certificate: .*cannot be used"):
        context(given)
