"""Who writes: decided by the properties alone."""

import pytest

from streaming.kafka.credentials import WITH_PASSWORD
from streaming.sink.choice import own_settings

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
