"""One `[kafka]` table, our connections and two clients, a broker that asks for TLS and names."""

from __future__ import annotations

import json
from functools import partial

import pytest
from kafka.errors import KafkaError
from kafka.protocol.metadata import MetadataRequest

from streaming.config.load import parse_config
from streaming.errors import KafkaUnavailable
from streaming.kafka import choice, client_settings, connection, tls, tokens
from streaming.kafka.ports import free_port
from streaming.service.refusals import is_refusal
from tests import kerberos
from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.secure_broker import KEY_PASSWORD, PASSWORD, STORE_PASSWORD, USER
from tests.token_endpoint import token_endpoint

SECONDS_MAX = 60


def config(address, properties):
    tables = {
        "kafka": {"bootstrap_servers": address, "properties": properties},
        "pipelines": {"p": {"discipline": "channel"}},
    }
    return parse_config(tables, {}, "test")


def by_our_own(settings, limit_s):
    return set(connection.wait_for_kafka(settings, limit_s).topics)


def by_librdkafka(settings, limit_s):
    from confluent_kafka.admin import AdminClient

    properties = client_settings.without_producer_settings(client_settings.confluent(settings))
    return set(connection.client(AdminClient, properties).list_topics(timeout=limit_s).topics)


def by_kafka_python(settings, limit_s):
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        **client_settings.kafka_python(settings), bootstrap_timeout_ms=limit_s * 1000
    )
    try:
        return set(consumer.topics())
    finally:
        consumer.close()


CLIENTS = [by_our_own, by_librdkafka, by_kafka_python]

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
    "Java's stores": lambda b: (
        "mutual",
        {
            "security.protocol": "SSL",
            "ssl.truststore.location": str(b.certificates.java_truststore),
            "ssl.truststore.password": STORE_PASSWORD,
            "ssl.keystore.location": str(b.certificates.java_keystore),
            "ssl.keystore.password": STORE_PASSWORD,
        },
    ),
    "a token that nobody signed": lambda b: ("oauth", b.properties("oauth")),
    "a ticket": lambda b: ("kerberos", b.properties("kerberos")),
    "a ticket in Java's words": lambda b: (
        "kerberos",
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required "
            f'useKeyTab=true keyTab="{b.properties("kerberos")["sasl.kerberos.keytab"]}" '
            f'principal="{USER}";',
        },
    ),
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


NEEDS = {"Java's stores": "cryptography"}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("way", WAYS)
def test_every_client_gets_in(secure_broker, way, client):
    if way in NEEDS:
        pytest.importorskip(NEEDS[way])
    if "ticket" in way:
        if lacks := kerberos.missing():
            pytest.skip(f"there is no {lacks} for a realm of Kerberos")
        if client is by_librdkafka:
            pytest.skip("confluent-kafka's wheels are built without Kerberos")
    address, properties = WAYS[way](secure_broker)
    settings = config(getattr(secure_broker, address), properties)
    topic = "seen-by-every-client"
    if topic not in by_our_own(config(secure_broker.bootstrap, {}), SECONDS_MAX):
        create_topics(secure_broker.bootstrap, {topic: 1})
    assert topic in client(settings, SECONDS_MAX)


def test_what_one_listed_address_refuses_another_may_take(secure_broker):
    """As while a broker starts that knows no passwords yet; kafka-python fails by chance."""
    b = secure_broker
    for addresses in ([b.oauth, b.sasl], [b.sasl, b.oauth], [b.oauth, b.sasl, b.oauth]):
        by_our_own(config(",".join(addresses), b.properties("sasl")), SECONDS_MAX)
    others = f"{b.oauth},localhost:{b.oauth.rpartition(':')[2]}"
    with pytest.raises(KafkaUnavailable, match="refuses this user"):
        by_our_own(config(others, b.properties("sasl")), SECONDS_MAX)


def test_after_a_refusal_another_token_is_asked_for(secure_broker, monkeypatch):
    """A provider may sign with another key since."""
    unsigned = tokens.provider(secure_broker.properties("oauth")).token()
    with token_endpoint() as (address, handler):
        properties = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": address,
            "sasl.oauthbearer.client.id": "c",
            "sasl.oauthbearer.client.secret": "s",
        }
        settings = config(secure_broker.oauth, properties)
        for _ in range(2):  # brokers may refuse all: the provider is not asked at each try
            with pytest.raises(KafkaUnavailable, match="refuses"):
                by_our_own(settings, SECONDS_MAX)
            assert len(handler.asked) == 1
        monkeypatch.setattr(tokens, "YOUNG_SECONDS", 0.0)
        with pytest.raises(KafkaUnavailable, match="refuses"):
            by_our_own(settings, SECONDS_MAX)
        handler.answer = json.dumps({"access_token": unsigned}).encode()
        by_our_own(settings, SECONDS_MAX)
        assert len(handler.asked) == 2
        handler.status, words = 401, {**properties, "sasl.oauthbearer.client.secret": "of before"}
        with pytest.raises(KafkaUnavailable, match="refuses this user") as refused:
            by_our_own(config(secure_broker.oauth, words), SECONDS_MAX)
        assert is_refusal(refused.value)


@pytest.fixture(params=["authority", "certificate", "password", "plain password", "nobody there"])
def refused(request, secure_broker):
    """A configuration that does not get in, what is said of it, and when.

    Who is refused hears it at once, on a loaded machine later; where nobody is, time runs out.
    """
    b = secure_broker
    other = str(b.certificates.other_authority)
    address, properties, told = {
        "authority": (
            b.ssl,
            {**b.properties("ssl"), "ssl.ca.location": other},
            r"be reached by TLS \(Handshake failed.*certificate verify failed",
        ),
        "certificate": (b.mutual, b.properties("ssl"), r"be reached by TLS \(.*certificate"),
        "password": (
            b.sasl,
            {**b.properties("sasl"), "sasl.password": "another"},
            r"refuses this user \(Authentication failed .*invalid credentials",
        ),
        "plain password": (
            b.sasl_ssl,
            {**b.properties("sasl_ssl", "PLAIN"), "sasl.password": "another"},
            r"refuses this user \(.*Invalid username or password",
        ),
        "nobody there": (f"127.0.0.1:{free_port()}", {}, r"does not answer \(Connection refused"),
    }[request.param]
    limit_s = 2 if request.param == "nobody there" else SECONDS_MAX
    return config(address, properties), told, limit_s


def test_who_is_refused_is_told_why(refused):
    settings, told, limit_s = refused
    with pytest.raises(KafkaUnavailable, match=told):
        connection.wait_for_kafka(settings, limit_s)


def test_kafka_python_is_refused_too(secure_broker):
    wrong = {**secure_broker.properties("sasl"), "sasl.password": "another"}
    with pytest.raises(KafkaError):
        by_kafka_python(config(secure_broker.sasl, wrong), 2)


def test_records_go_there_and_back_through_tls_and_a_password(secure_broker, topic_prefix):
    topic = topic_prefix + "t"
    settings = config(secure_broker.sasl_ssl, secure_broker.properties("sasl_ssl"))
    given = client_settings.confluent(settings)
    create_topics(
        settings.kafka.bootstrap_servers,
        {topic: 1},
        **client_settings.without_producer_settings(given),
    )
    produce(settings.kafka.bootstrap_servers, topic, [Record(b"k", b"v")], **given)
    reader = client_settings.kafka_python(settings)
    found = read_all(",".join(reader.pop("bootstrap_servers")), topic, **reader)
    assert [(record.key, record.value) for record in found] == [(b"k", b"v")]


def test_a_certificate_that_is_renewed_counts_from_the_next_connection_on(secure_broker):
    """Where the brokers are known, the refusal of the old one does not stay."""
    words = client_settings.words(config(secure_broker.mutual, secure_broker.properties("mutual")))
    others = {name: text for name, text in words.items() if "certificate.loc" not in name}
    others.pop("ssl.key.location")

    def look(brokers, seconds):
        request = partial(MetadataRequest, topics=[], max_version=9)
        return brokers.ask(request, lambda _: (), node=1, seconds=seconds)

    with choice.opened(words) as brokers:
        renewed = brokers.manager.new_ssl_context
        brokers.manager.new_ssl_context = partial(tls.context, others)
        with pytest.raises(KafkaError, match="(?i)certificate"):
            look(brokers, 3)
        brokers.manager.new_ssl_context = renewed
        assert look(brokers, SECONDS_MAX).brokers
