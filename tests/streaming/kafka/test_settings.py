"""What our own connections and producers go by."""

from pathlib import Path

from streaming.kafka.choice import CLUSTERS_MAX, brokers_of, own_settings

AT = {"bootstrap.servers": "a:1,b:2"}


def test_what_kafka_python_is_told():
    settings = own_settings(
        {
            **AT,
            "client.id": "me",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": "secret",
            "compression.type": "zstd",
            "transaction.timeout.ms": "10000",
            "request.timeout.ms": "5000",
        }
    )
    assert settings.compression == "zstd"
    assert settings.transaction_timeout_ms == 10_000
    assert settings.connection == {
        "bootstrap_servers": ["a:1", "b:2"],
        "client_id": "me",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "secret",
        "request_timeout_ms": 5_000,
    }


def test_lz4_and_a_minute_unless_said_otherwise():
    settings = own_settings(AT)
    assert (settings.compression, settings.transaction_timeout_ms) == ("lz4", 60_000)


def test_connections_are_shared_by_their_properties_but_not_by_users_of_their_own():
    first = brokers_of(own_settings(AT))
    assert brokers_of(own_settings(dict(AT))) is first
    assert brokers_of(own_settings({**AT, "client.id": "another"})) is not first
    assert brokers_of(own_settings(AT), "a pipeline of the driver's") is not first


def test_connections_by_passwords_that_were_renewed_since_are_closed():
    """Each renewal left what a connection keeps open, for as long as its process lives."""
    opened = Path("/proc/self/fd")
    before = len([*opened.iterdir()])
    first = brokers_of(own_settings(AT), "renewing")
    each_opens = len([*opened.iterdir()]) - before
    for number in range(100):
        now = own_settings({**AT, "sasl.password": f"{number}"})
        last = brokers_of(now, "renewing")
    assert len([*opened.iterdir()]) - before <= CLUSTERS_MAX * each_opens
    assert brokers_of(now, "renewing") is last
    assert brokers_of(own_settings(AT), "renewing") is not first


def test_settings_of_tls_are_made_again_for_each_connection():
    connection = own_settings({**AT, "security.protocol": "SSL"}).connection
    assert connection["new_ssl_context"]() is not connection["new_ssl_context"]()
