"""`[kafka] properties`: what each client is told, whichever client's words were used."""

from __future__ import annotations

import ssl

import pytest

from streaming.config import parse_config
from streaming.config.properties import JAVA, LIBRDKAFKA, LIBRDKAFKA_PRODUCER, OWNED
from streaming.errors import ConfigError
from streaming.kafka import connection
from tests.secure_broker import KEY_PASSWORD, make_certificates, missing

LOGIN = "org.apache.kafka.common.security"


def config(properties, address="a:1,b:2", environ=None):
    tables = {
        "kafka": {"bootstrap_servers": address, "properties": properties},
        "pipelines": {"p": {"discipline": "channel"}},
    }
    return parse_config(tables, environ or {}, "test")


def told(client, properties):
    """What a client is told, but for the address."""
    out = client(config(properties))
    address = out.pop("bootstrap_servers", None) or out.pop("bootstrap.servers").split(",")
    assert address == ["a:1", "b:2"]
    return out


def test_nothing_given_is_nothing_told():
    for client in (connection.java, connection.confluent, connection.kafka_python):
        assert told(client, {}) == {}


def test_the_rest_goes_to_who_knows_it():
    given = {
        "security.protocol": "ssl",
        "client.id": "me",
        "linger.ms": 7,
        "socket.keepalive.enable": True,
        "fetch.max.bytes": 1000,
        "default.api.timeout.ms": 5,
        "acks": "all",
        "queued.min.messages": 9,
    }
    assert told(connection.java, given) == {
        "security.protocol": "SSL",
        "client.id": "me",
        "fetch.max.bytes": "1000",
        "default.api.timeout.ms": "5",
    }
    assert told(connection.confluent, given) == {
        "security.protocol": "ssl",
        "client.id": "me",
        "linger.ms": "7",
        "socket.keepalive.enable": "true",
    }
    assert "linger.ms" not in connection.without_producer_settings(
        connection.confluent(config(given))
    )
    assert told(connection.kafka_python, given) == {"security_protocol": "SSL", "client_id": "me"}


def test_what_none_is_known_to_know_goes_to_both():
    given = {"something.very.new": "x"}
    assert told(connection.java, given) == given
    assert told(connection.confluent, given) == given


def test_more_can_be_added():
    assert connection.confluent(config({}), **{"group.id": "g"})["group.id"] == "g"


@pytest.mark.parametrize("name", sorted(LIBRDKAFKA | LIBRDKAFKA_PRODUCER))
def test_librdkafka_knows_the_names(name):
    """Of the version that is installed; a newer one may know more."""
    from confluent_kafka import KafkaException, Producer

    told = ""
    try:
        Producer({name: "\x01"}, logger=connection.quiet())
    except KafkaException as error:
        told = str(error)
    assert "No such configuration property" not in told


def test_the_service_s_own_settings_are_passed_to_nobody():
    assert not set(OWNED) & (JAVA | LIBRDKAFKA | LIBRDKAFKA_PRODUCER)


# Names and passwords

PASSWORDS = ["simple", 'a"b', "a\\b", "a b;c=d", "ä€", "it's", "\\", '"', "$1", "x'y\"z"]


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", "plain.PlainLoginModule"),
        ("SCRAM-SHA-256", "scram.ScramLoginModule"),
        ("SCRAM-SHA-512", "scram.ScramLoginModule"),
    ],
)
@pytest.mark.parametrize("word", ["sasl.mechanism", "sasl.mechanisms"])
def test_passwords_go_there_and_back(password, mechanism, module, word):
    given = {
        "security.protocol": "SASL_SSL",
        word: mechanism,
        "sasl.username": "u\\ser",
        "sasl.password": password,
    }
    for_java = told(connection.java, given)
    assert set(for_java) == {"security.protocol", "sasl.mechanism", "sasl.jaas.config"}
    assert for_java["sasl.mechanism"] == mechanism
    assert for_java["sasl.jaas.config"].startswith(f"{LOGIN}.{module} required username=")
    expected = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": mechanism,
        "sasl.username": "u\\ser",
        "sasl.password": password,
    }
    assert told(connection.confluent, given) == expected
    assert told(connection.confluent, for_java) == expected  # Java's words give the same
    assert told(connection.java, for_java) == for_java
    assert told(connection.kafka_python, for_java) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "u\\ser",
        "sasl_plain_password": password,
    }


@pytest.mark.parametrize(
    "text",
    [
        'X required username="u" password="p";',
        "X required username=u password=p;",
        "X required\n  username='u'\n  password='p';",
        'X required password="p" serviceName="ssl_password=\'no\'" username = "u" ;',
    ],
)
def test_the_ways_to_write_jaas(text):
    given = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": text}
    out = told(connection.confluent, given)
    assert (out["sasl.username"], out["sasl.password"]) == ("u", "p")
    assert told(connection.java, given) == given


@pytest.mark.parametrize(
    ("properties", "lacks"),
    [
        ({"sasl.username": "u", "sasl.mechanism": "PLAIN"}, "no sasl.password"),
        ({"sasl.username": "u", "sasl.password": "geheim"}, "no sasl.mechanism"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": "X required geheim;"},
            "names no username and password",
        ),
    ],
)
@pytest.mark.parametrize("client", [connection.java, connection.confluent, connection.kafka_python])
def test_half_a_login(client, properties, lacks):
    with pytest.raises(ConfigError, match=lacks) as refused:
        client(config(properties))
    assert "geheim" not in str(refused.value)


def test_other_mechanisms_keep_their_words():
    given = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{LOGIN}.oauthbearer.OAuthBearerLoginModule required clientId="c";',
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "c",
        "sasl.oauthbearer.token.endpoint.url": "https://x",
    }
    assert told(connection.confluent, given) == {
        "sasl.mechanisms": "OAUTHBEARER",
        **{name: given[name] for name in given if name.startswith("sasl.oauthbearer.")},
    }
    assert told(connection.java, given) == {
        name: given[name]
        for name in ("sasl.mechanism", "sasl.jaas.config", "sasl.oauthbearer.token.endpoint.url")
    }


# Certificates


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    if lacks := missing():
        pytest.skip(f"there is no {lacks} to make certificates with")
    return make_certificates(tmp_path_factory.mktemp("pem") / "certificates")[0]


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


# Before anything starts


@pytest.mark.parametrize(
    "properties",
    [
        {"security.protocol": "NONSENSE"},
        {"linger.ms": "soon"},
        {"max.in.flight": 6},  # too many to keep the order through retries
        {"something.very.new": "x"},
        {"ssl.ca.location": "/nowhere/ca.pem", "security.protocol": "SSL"},
    ],
)
def test_what_a_client_refuses_is_told_without_kafka(properties):
    with pytest.raises(ConfigError, match=r"kafka\.properties"):
        connection.validate(config(properties))


def test_what_no_client_refuses_is_valid(pem):
    connection.validate(config({}))
    connection.validate(config({"security.protocol": "SSL", "ssl.ca.location": str(pem.authority)}))


def test_a_secret_in_the_wrong_place_is_not_repeated():
    given = {"security.protocol": "${SECRET}"}
    with pytest.raises(ConfigError, match=r"refused: .*\*\*\*") as refused:
        connection.validate(config(given, environ={"SECRET": "geheim"}))
    assert "geheim" not in str(refused.value)
