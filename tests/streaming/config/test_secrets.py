"""Variables, secrets, and properties that are the service's own."""

from __future__ import annotations

import pytest

from streaming.config import parse_config
from streaming.errors import ConfigError


def with_properties(properties, environ=None):
    tables = {
        "kafka": {"properties": properties},
        "pipelines": {"p": {"discipline": "channel"}},
    }
    return parse_config(tables, environ or {}, "c.toml")


def test_variables_are_filled_in():
    config = with_properties(
        {
            "sasl.username": "${USER}",
            "sasl.password": "x${PASS}y${USER}$${EMPTY}",
            "client.id": "plain $HOME",
        },
        {"USER": "alice", "PASS": "geheim", "EMPTY": ""},
    )
    assert config.kafka.properties == {
        "sasl.username": "alice",
        "sasl.password": "xgeheimyalice$",
        "client.id": "plain $HOME",
    }


def test_a_missing_variable_is_named():
    with pytest.raises(ConfigError) as refused:
        with_properties({"sasl.password": "${PASS}", "sasl.username": "${A}${B-C}"})
    assert refused.value.faults == (
        'kafka.properties."sasl.password": the environment has no PASS; set it before the start',
        'kafka.properties."sasl.username": the environment has no A; set it before the start',
        'kafka.properties."sasl.username": ${B-C} names no variable; write ${NAME}',
    )


def test_secrets_are_never_shown():
    config = with_properties(
        {
            "sasl.password": "geheim1",
            "sasl.jaas.config": 'X required username="u" password="geheim2";',
            "ssl.key.pem": "geheim3",
            "client.id": "${CLIENT}",
            "security.protocol": "SSL",
        },
        {"CLIENT": "name-from-outside"},
    )
    shown = repr(config) + str(config) + repr(config.kafka) + str(config.kafka)
    for secret in ("geheim1", "geheim2", "geheim3", "name-from-outside"):
        assert secret not in shown
        assert config.hide(f"It said {secret}, SSL.") == "It said ***, SSL."


def test_a_secret_is_not_in_an_error_either():
    tables = {
        "kafka": {
            "bootstrap_servers": "geheim",
            "properties": {"sasl.password": "geheim", "nonsense": {"a": "geheim"}, "x": ["geheim"]},
        },
        "pipelines": {"p": {"discipline": "channel", "labels": 3}},
    }
    with pytest.raises(ConfigError) as refused:
        parse_config(tables, {}, "c.toml")
    assert len(refused.value.faults) == 4
    assert "geheim" not in str(refused.value)
    assert "geheim" not in repr(refused.value)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("bootstrap.servers", "a:1", "write the address as kafka.bootstrap_servers"),
        ("group.id", "g", "the guarantees need the service's own setting"),
        ("transactional.id", "g", "the guarantees need"),
        ("enable.idempotence", False, "the guarantees need"),
        ("isolation.level", "read_uncommitted", "the guarantees need"),
        ("acks", 1, "the guarantees need"),
        ("securty.protocol", "SSL", "no client knows it; did you mean security.protocol?"),
        ("ssl.ca.locaton", "x", "did you mean ssl.ca.location?"),
    ],
)
def test_properties_that_cannot_be_given(name, value, told):
    with pytest.raises(ConfigError) as refused:
        with_properties({name: value})
    (fault,) = refused.value.faults
    assert fault.startswith(f'kafka.properties."{name}": ' if "." in name else "kafka.properties.")
    assert told in fault


def test_properties_that_say_what_the_service_does_anyway():
    same = {"enable.idempotence": True, "acks": "all", "isolation.level": "read_committed"}
    config = with_properties({**same, "my.plug.in.key": "x"})
    assert config.kafka.properties == {
        "enable.idempotence": "true",
        "acks": "all",
        "isolation.level": "read_committed",
        "my.plug.in.key": "x",
    }
