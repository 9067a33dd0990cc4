"""`[kafka] properties`: what our connections and librdkafka are told, in whichever words it is written."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from streaming.config.kafka_properties import (
    NO_EFFECT,
    NOT_SERVED,
    NUMBERS,
    OWNED,
    UNDERSTOOD,
    fault,
    without_effect,
)
from streaming.errors import ConfigError
from streaming.kafka import client_settings, connection
from tests.streaming.kafka.clients import config, told

LOGIN = "org.apache.kafka.common.security"
OIDC = "sasl.oauthbearer."


def test_nothing_given_is_nothing_told():
    for client in (client_settings.words, client_settings.confluent, client_settings.kafka_python):
        assert told(client, {}) == {}


def test_what_is_understood_and_what_has_no_effect():
    given = {
        "security.protocol": "ssl",
        "client.id": "me",
        "compression.codec": "ZSTD",
        "request.timeout.ms": 5000,
        "linger.ms": 7,
        "socket.keepalive.enable": True,
        "fetch.max.bytes": 1000,
        "client.rack": "a",
        "acks": "all",
    }
    words = {
        "security.protocol": "SSL",
        "client.id": "me",
        "compression.type": "zstd",
        "request.timeout.ms": "5000",
    }
    assert told(client_settings.words, given) == words
    assert told(client_settings.confluent, given) == words
    assert client_settings.without_producer_settings(client_settings.confluent(config(given))) == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SSL",
        "client.id": "me",
    }
    own = told(client_settings.kafka_python, given)
    assert own.pop("ssl_context").check_hostname
    assert own == {"security_protocol": "SSL", "client_id": "me", "request_timeout_ms": 5_000}
    assert without_effect(given) == [
        "client.rack",
        "fetch.max.bytes",
        "linger.ms",
        "socket.keepalive.enable",
    ]


def test_all_numbers_reach_our_connections():
    own = told(client_settings.kafka_python, dict.fromkeys(NUMBERS, 1234))
    assert own == {
        name.replace(".", "_"): 1234 for name in NUMBERS if name != "transaction.timeout.ms"
    }


def test_more_can_be_added():
    assert client_settings.confluent(config({}), **{"group.id": "g"})["group.id"] == "g"


@pytest.mark.parametrize(
    "name", sorted(client_settings.AS_WRITTEN - set(client_settings.OF_JAVA_ALONE))
)
def test_librdkafka_knows_the_names(name):
    """Of the version that is installed; a newer one may know more."""
    from confluent_kafka import KafkaException, Producer

    why = ""
    try:
        connection.client(Producer, {name: "\x01"})
    except KafkaException as error:
        why = str(error)
    assert "No such configuration property" not in why


def test_a_name_has_one_meaning():
    sets = [UNDERSTOOD, NO_EFFECT, set(NOT_SERVED), set(OWNED)]
    assert sum(map(len, sets)) == len(set().union(*sets))


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("bootstrap.servers", "a:1", "kafka.bootstrap_servers instead"),
        ("acks", "1", "the guarantees need"),
        ("ssl.engine.factory.class", "x", "can load no such plug-in"),
        ("fetch.max.byte", "1", "no client of Kafka knows it; did you mean fetch.max.bytes?"),
        ("something.very.new", "x", "no client of Kafka knows it; leave it out"),
        ("request.timeout.ms", "soon", "must be a whole number of milliseconds"),
        ("request.timeout.ms", "0", "must be a whole number of milliseconds"),
        ("security.protocol", "TLS", '"SASL_SSL"'),
        ("sasl.mechanism", "SCRAM", '"SCRAM-SHA-512"'),
        ("compression.type", "brotli", '"snappy"'),
        ("sasl.oauthbearer.grant.type", "urn:ietf:params:oauth:grant-type:jwt-bearer", "write one"),
    ],
)
def test_what_is_refused(name, text, why):
    assert why in fault(name, text)
    with pytest.raises(ConfigError, match="kafka.properties"):
        config({name: text})


def test_what_stands_for_a_default_passes():
    for name, text in {"acks": "ALL", "isolation.level": "read_committed"}.items():
        assert fault(name, text) is None


# Names and passwords

PASSWORDS = ["simple", 'a"b', "a\\b", "a b;c=d", "ä€", "it's", "\\", '"', "$1", "x'y\"z"]


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


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
def test_passwords_in_both_words(password, mechanism, module, word):
    user = "u\\ser"
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        word: mechanism.lower(),
        "sasl.username": user,
        "sasl.password": password,
    }
    of_java = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{LOGIN}.{module} required username={quoted(user)} "
        f"password={quoted(password)};",
    }
    for properties in (given, of_java, {**of_java, **given}):
        assert told(client_settings.words, properties) == {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": mechanism,
            "sasl.username": "u\\ser",
            "sasl.password": password,
        }
        assert told(client_settings.kafka_python, properties) == {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "u\\ser",
            "sasl_plain_password": password,
        }


@pytest.mark.parametrize(
    ("mechanism", "sent"), [("PLAIN", "a=b,c"), ("SCRAM-SHA-256", "a=3Db=2Cc")]
)
def test_what_has_a_meaning_in_scram_s_messages_is_escaped(mechanism, sent):
    given = {"sasl.mechanism": mechanism, "sasl.username": "a=b,c", "sasl.password": "p"}
    assert told(client_settings.kafka_python, given)["sasl_plain_username"] == sent


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
    out = told(client_settings.words, {"sasl.mechanism": "PLAIN", "sasl.jaas.config": text})
    assert (out["sasl.username"], out["sasl.password"]) == ("u", "p")


@pytest.mark.parametrize(
    ("properties", "lacks"),
    [
        ({"sasl.username": "u", "sasl.mechanism": "PLAIN"}, "no sasl.password"),
        ({"sasl.username": "u", "sasl.password": "geheim"}, "no sasl.mechanism"),
        ({"sasl.mechanism": "PLAIN"}, "no sasl.username"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": "X required geheim;"},
            "names no username and password",
        ),
    ],
)
def test_half_a_login(properties, lacks):
    with pytest.raises(ConfigError, match=lacks) as refused:
        client_settings.words(config(properties))
    assert "geheim" not in str(refused.value)


def test_a_delegation_token_is_no_password():
    """Java's clients say in their first message that it is one; ours and librdkafka cannot."""
    text = (
        f'{LOGIN}.scram.ScramLoginModule required username="id" password="geheim" tokenauth=true;'
    )
    given = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": text}
    with pytest.raises(ConfigError, match="delegation tokens are not supported") as refused:
        client_settings.words(config(given))
    assert "geheim" not in str(refused.value)


def test_kerberos_in_both_words():
    pytest.importorskip("gssapi")
    module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
    of_java = {
        "sasl.mechanism": "GSSAPI",
        "sasl.jaas.config": f'{module} keyTab="/k" principal="me@R" serviceName=broker;',
    }
    given = {
        "sasl.mechanisms": "GSSAPI",
        "sasl.kerberos.keytab": "/k",
        "sasl.kerberos.principal": "me@R",
        "sasl.kerberos.service.name": "broker",
    }
    for properties in (of_java, given, {**of_java, **given}):
        assert told(client_settings.words, properties) == given
        login = told(client_settings.kafka_python, properties)["sasl_kerberos_name"]
        assert (login.service, login.principal, login.keytab) == ("broker", "me@R", "/k")
    plain = told(client_settings.kafka_python, {"sasl.mechanism": "GSSAPI"})["sasl_kerberos_name"]
    assert (plain.service, plain.principal, plain.keytab) == ("kafka", None, None)


def test_without_gssapi_kerberos_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"needs Python's gssapi.*spark-sequencer\[kerberos\]"):
        client_settings.kafka_python(config({"sasl.mechanism": "GSSAPI"}))


def test_tokens_of_a_provider_in_both_words():
    url = "https://provider/token"
    expected = {
        "sasl.mechanisms": "OAUTHBEARER",
        f"{OIDC}method": "oidc",
        f"{OIDC}token.endpoint.url": url,
        f"{OIDC}client.id": "c",
        f"{OIDC}client.secret": "geheim",
        f"{OIDC}scope": "kafka",
        f"{OIDC}extensions": "logicalCluster=lkc-1,identityPoolId=pool-2",
    }
    of_java = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": f"{LOGIN}.oauthbearer.OAuthBearerLoginCallbackHandler",
        f"{OIDC}token.endpoint.url": url,
        "sasl.jaas.config": f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required clientId='c' "
        "clientSecret='geheim' scope='kafka' extension_logicalCluster='lkc-1' "
        "extension_identityPoolId='pool-2';",
    }
    newer = {
        "sasl.mechanism": "OAUTHBEARER",
        f"{OIDC}token.endpoint.url": url,
        f"{OIDC}client.credentials.client.id": "c",
        f"{OIDC}client.credentials.client.secret": "geheim",
        f"{OIDC}scope": "kafka",
        f"{OIDC}extensions": "logicalCluster=lkc-1,identityPoolId=pool-2",
    }
    for properties in (of_java, newer, expected):
        assert told(client_settings.words, properties) == expected
        provider = told(client_settings.kafka_python, properties)["sasl_oauth_token_provider"]
        assert provider.extensions() == {"logicalCluster": "lkc-1", "identityPoolId": "pool-2"}


def test_a_token_that_nobody_signs_in_both_words():
    of_java = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="alice";',
    }
    expected = {
        "sasl.mechanisms": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        f"{OIDC}config": "principal=alice",
    }
    assert told(client_settings.words, of_java) == expected
    assert told(client_settings.words, {**of_java, **expected}) == expected


def test_a_handler_of_java_s_that_cannot_be_loaded():
    handler = {"sasl.login.callback.handler.class": "com.example.Handler"}
    with pytest.raises(ConfigError, match=r"cannot load com\.example\.Handler"):
        client_settings.words(config({"sasl.mechanism": "OAUTHBEARER", **handler}))


# Before anything starts


@pytest.mark.parametrize(
    "properties",
    [
        {"ssl.ca.location": "/nowhere/ca.pem", "security.protocol": "SSL"},
        {"security.protocol": "SSL", "ssl.cipher.suites": "nonsense"},
        {"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1"},
        {"sasl.mechanism": "OAUTHBEARER"},
    ],
)
def test_what_cannot_work_is_told_without_kafka(properties):
    with pytest.raises(ConfigError, match=r"kafka\.properties"):
        connection.validate(config(properties))


def test_what_can_work_is_valid(pem):
    connection.validate(config({}))
    connection.validate(config({"security.protocol": "SSL", "ssl.ca.location": str(pem.authority)}))
    both = {"ssl.enabled.protocols": "TLSv1.2,TLSv1.3", "ssl.cipher.suites": "HIGH"}
    connection.validate(config({"security.protocol": "SASL_SSL", **both}))


def test_a_secret_in_the_wrong_place_is_not_repeated():
    with pytest.raises(ConfigError, match=r"security.protocol.*\*\*\*") as refused:
        config({"security.protocol": "${SECRET}"}, environ={"SECRET": "geheim"})
    assert "geheim" not in str(refused.value)


def test_why_kafka_did_not_do_something():
    unknown = KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    assert "Unknown topic" in connection.reason(unknown)
    assert connection.reason(TimeoutError()) == "Kafka did not answer"
