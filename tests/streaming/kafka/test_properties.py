"""`[kafka] properties`: what each client is told, whichever client's words were used."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from streaming.config.properties import JAVA, LIBRDKAFKA, LIBRDKAFKA_PRODUCER, OWNED
from streaming.errors import ConfigError
from streaming.kafka import connection
from tests.streaming.kafka.clients import config, told

LOGIN = "org.apache.kafka.common.security"


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


def test_why_kafka_did_not_do_something():
    unknown = KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    assert "Unknown topic" in connection.reason(unknown)
    assert connection.reason(TimeoutError()) == "Kafka did not answer"
