"""Who reads and writes: decided by the properties alone."""

import pytest

from streaming.config import parse_config
from streaming.kafka import connection
from streaming.kafka.choice import own_settings, reads_itself
from streaming.kafka.credentials import WITH_PASSWORD

PIPELINE = {"service": {"name": "s"}, "pipelines": {"p": {"discipline": "channel"}}}
AT = {"bootstrap.servers": "a:1,b:2"}


def test_what_kafka_python_is_told():
    settings = own_settings(
        {
            **AT,
            "client.id": "me",
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": "secret",
            "ssl.endpoint.identification.algorithm": "none",
            "compression.type": "zstd",
            "transaction.timeout.ms": "10000",
            "request.timeout.ms": "5000",
        }
    )
    assert settings is not None
    assert settings.compression == "zstd"
    assert settings.transaction_timeout_ms == 10_000
    assert settings.connection == {
        "bootstrap_servers": ["a:1", "b:2"],
        "client_id": "me",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "secret",
        "ssl_check_hostname": False,
        "request_timeout_ms": 5_000,
    }


def test_lz4_and_a_minute_unless_said_otherwise():
    settings = own_settings(AT)
    assert settings is not None
    assert (settings.compression, settings.transaction_timeout_ms) == ("lz4", 60_000)


@pytest.mark.parametrize("mechanism", WITH_PASSWORD)
def test_mechanisms_with_a_password(mechanism):
    assert own_settings({**AT, "sasl.mechanisms": mechanism, "security.protocol": "SASL_SSL"})


@pytest.mark.parametrize(
    "property_",
    [
        {"sasl.mechanisms": "GSSAPI"},
        {"sasl.mechanisms": "OAUTHBEARER"},
        {"ssl.keystore.location": "store.p12"},
        {"ssl.ca.location": "/"},
        {"compression.type": "snappy"},
        {"linger.ms": "20"},
        {"something.new": "1"},
    ],
    ids=str,
)
def test_what_only_librdkafka_knows_leaves_writing_to_it(property_):
    assert own_settings({**AT, **property_}) is None


@pytest.mark.parametrize(
    ("given", "itself"),
    [
        ({}, True),
        ({"client.id": "me", "security.protocol": "SSL", "ssl.truststore.type": "PEM"}, True),
        ({"fetch.message.max.bytes": "9"}, True),  # of librdkafka's consumers, told to nobody
        ({"max.poll.records": "100"}, False),
        ({"client.rack": "a"}, False),
        ({"linger.ms": "20"}, False),
    ],
    ids=str,
)
def test_who_reads(given, itself):
    tables = {"kafka": {"bootstrap_servers": "a:1", "properties": given}, **PIPELINE}
    config = parse_config(tables, {}, "test")
    assert reads_itself(config.kafka.properties, connection.confluent(config)) is itself
