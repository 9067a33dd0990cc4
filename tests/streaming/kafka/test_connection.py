"""One `[kafka]` table, three clients, a broker that asks for TLS and names: all get in, or none."""

from __future__ import annotations

import os
from pathlib import Path

import pyspark
import pytest
from kafka.errors import KafkaError
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from streaming.config.load import parse_config
from streaming.errors import ConfigError, KafkaUnavailable
from streaming.kafka import connection
from streaming.kafka.embedded import free_port
from streaming.kafka.jars import java, spark_jars
from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.secure_broker import KEY_PASSWORD, PASSWORD, USER

SECONDS_MAX = 60


def config(address, properties):
    tables = {
        "kafka": {"bootstrap_servers": address, "properties": properties},
        "pipelines": {"p": {"discipline": "channel"}},
    }
    return parse_config(tables, {}, "test")


@pytest.fixture(scope="module")
def java_admin():
    """Kafka's Java client as Spark's connector has it; gives a function that lists topics."""
    own = Path(pyspark.__file__).parent / "jars"
    py4j = next(own.glob("py4j-*.jar"))
    gateway = JavaGateway.launch_gateway(
        jarpath=str(py4j),
        classpath=os.pathsep.join([*map(str, spark_jars()), str(own / "*")]),
        java_path=java(),
        enable_auth=True,
        die_on_exit=True,
    )

    def topics(properties, limit_s):
        given = gateway.jvm.java.util.Properties()
        for name, text in properties.items():
            given.setProperty(name, text)
        given.setProperty("default.api.timeout.ms", str(limit_s * 1000))
        given.setProperty("request.timeout.ms", str(limit_s * 1000))
        admin = gateway.jvm.org.apache.kafka.clients.admin.Admin.create(given)
        try:
            return set(admin.listTopics().names().get())
        finally:
            admin.close(gateway.jvm.java.time.Duration.ZERO)

    yield topics
    gateway.shutdown()


def by_java(settings, admin, limit_s):
    return admin(connection.java(settings), limit_s)


def by_librdkafka(settings, _admin, limit_s):
    from confluent_kafka.admin import AdminClient

    properties = connection.without_producer_settings(connection.confluent(settings))
    return set(
        AdminClient(properties, logger=connection.quiet()).list_topics(timeout=limit_s).topics
    )


def by_kafka_python(settings, _admin, limit_s):
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        **connection.kafka_python(settings), bootstrap_timeout_ms=limit_s * 1000
    )
    try:
        return set(consumer.topics())
    finally:
        consumer.close()


CLIENTS = [by_java, by_librdkafka, by_kafka_python]

WAYS = {
    "plain": lambda b: ("bootstrap", b.properties("bootstrap")),
    "tls": lambda b: ("ssl", b.properties("ssl")),
    "tls, no look at the name": lambda b: (
        "ssl",
        {**b.properties("ssl"), "ssl.endpoint.identification.algorithm": "none"},
    ),
    "tls, a Java trust store of PEM": lambda b: (
        "ssl",
        {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(b.certificates.authority),
        },
    ),
    "a certificate of ours": lambda b: ("mutual", b.properties("mutual")),
    "a certificate of ours, its key encrypted": lambda b: (
        "mutual",
        {
            **b.properties("mutual"),
            "ssl.key.location": str(b.certificates.client_key_encrypted),
            "ssl.key.password": KEY_PASSWORD,
        },
    ),
    "PLAIN": lambda b: ("sasl", b.properties("sasl", "PLAIN")),
    "SCRAM-SHA-256": lambda b: ("sasl", b.properties("sasl", "SCRAM-SHA-256")),
    "SCRAM-SHA-512": lambda b: ("sasl", b.properties("sasl")),
    "SCRAM over TLS": lambda b: ("sasl_ssl", b.properties("sasl_ssl")),
    "SCRAM in Java's words": lambda _: (
        "sasl",
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f"username={USER} password={_quoted(PASSWORD)};",
        },
    ),
}


def _quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("way", WAYS)
def test_every_client_gets_in(secure_broker, java_admin, way, client):
    address, properties = WAYS[way](secure_broker)
    settings = config(getattr(secure_broker, address), properties)
    topic = "seen-by-every-client"
    if topic not in by_librdkafka(config(secure_broker.bootstrap, {}), None, SECONDS_MAX):
        create_topics(secure_broker.bootstrap, {topic: 1})
    assert topic in client(settings, java_admin, SECONDS_MAX)


@pytest.fixture(params=["authority", "certificate", "password", "plain password", "nobody there"])
def refused(request, secure_broker):
    """A configuration that does not get in, what librdkafka and Java say of it, and when.

    Who is refused hears it at once, on a loaded machine later; where nobody is, time runs out.
    """
    b = secure_broker
    other = str(b.certificates.other_authority)
    address, properties, *told = {
        "authority": (
            b.ssl,
            {**b.properties("ssl"), "ssl.ca.location": other},
            "SSL handshake failed.*certificate verify failed",
            "SslAuthenticationException",
        ),
        "certificate": (b.mutual, b.properties("ssl"), "certificate", "SslAuthenticationException"),
        "password": (
            b.sasl,
            {**b.properties("sasl"), "sasl.password": "another"},
            "SASL authentication error.*invalid credentials",
            "SaslAuthenticationException",
        ),
        "plain password": (
            b.sasl_ssl,
            {**b.properties("sasl_ssl", "PLAIN"), "sasl.password": "another"},
            "Invalid username or password",
            "SaslAuthenticationException",
        ),
        "nobody there": (f"127.0.0.1:{free_port()}", {}, "Connection refused", "TimeoutException"),
    }[request.param]
    limit_s = 2 if request.param == "nobody there" else SECONDS_MAX
    return config(address, properties), *told, limit_s


def test_who_is_refused_is_told_why(refused):
    settings, told, _, limit_s = refused
    with pytest.raises(KafkaUnavailable, match=rf"does not answer \(.*{told}"):
        connection.wait_for_kafka(settings, limit_s)


def test_java_is_refused_for_the_same_reason(refused, java_admin):
    settings, _, told, limit_s = refused
    with pytest.raises(Py4JJavaError, match=told):
        by_java(settings, java_admin, limit_s)


def test_kafka_python_is_refused_too(secure_broker):
    wrong = {**secure_broker.properties("sasl"), "sasl.password": "another"}
    with pytest.raises(KafkaError):
        by_kafka_python(config(secure_broker.sasl, wrong), None, 2)


def test_records_go_there_and_back_through_tls_and_a_password(secure_broker, topic_prefix):
    topic = topic_prefix + "t"
    settings = config(secure_broker.sasl_ssl, secure_broker.properties("sasl_ssl"))
    given = connection.confluent(settings)
    create_topics(
        settings.kafka.bootstrap_servers, {topic: 1}, **connection.without_producer_settings(given)
    )
    produce(settings.kafka.bootstrap_servers, topic, [Record(b"k", b"v")], **given)
    reader = connection.kafka_python(settings)
    found = read_all(",".join(reader.pop("bootstrap_servers")), topic, **reader)
    assert [(record.key, record.value) for record in found] == [(b"k", b"v")]


@pytest.mark.parametrize("store", ["truststore", "keystore"])
def test_a_java_key_store_is_refused_with_the_way_out(secure_broker, store):
    jks = str(secure_broker.certificates.java_truststore)
    settings = config("x:1", {"security.protocol": "SSL", f"ssl.{store}.location": jks})
    with pytest.raises(ConfigError, match=rf"ssl\.{store}\.location.*keytool -importkeystore"):
        connection.confluent(settings)


def test_a_certificate_that_is_not_there(tmp_path):
    missing = str(tmp_path / "client.pem")
    settings = config("x:1", {"ssl.certificate.location": missing, "ssl.key.location": missing})
    with pytest.raises(ConfigError, match=r"ssl\.certificate\.location: .*client\.pem cannot"):
        connection.java(settings)


def test_a_property_that_the_client_does_not_know():
    with pytest.raises(ConfigError, match=r'properties are refused: .*"no.such.property"'):
        connection.wait_for_kafka(config("x:1", {"no.such.property": "1"}), 1)
