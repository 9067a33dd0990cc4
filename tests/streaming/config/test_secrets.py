"""Variables, secrets, and properties that are the service's own."""

from __future__ import annotations

import json
from functools import partial

import pytest

from streaming.cli.check import understood
from streaming.config import parse_config
from streaming.config.properties import secret_names
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
        'kafka.properties."sasl.password": the environment has no PASS; set it before the start, '
        "or write ${PASS:default}",
        'kafka.properties."sasl.username": the environment has no A; set it before the start, '
        "or write ${A:default}",
        'kafka.properties."sasl.username": ${B-C} names no variable; write ${NAME}, '
        "${NAME:default} or ${file:/path}",
    )


def test_a_variable_that_is_not_closed_is_no_password():
    with pytest.raises(ConfigError, match=r'"sasl.password": a `\$\{` is not closed') as refused:
        with_properties({"sasl.password": "${PASS", "client.id": "${A:}b}"}, {"PASS": "geheim"})
    assert len(refused.value.faults) == 1


def test_a_variable_has_a_default():
    config = with_properties(
        {"client.id": "${ID:seq:1}", "sasl.username": "${USER:nobody}", "sasl.password": "${NO:}"},
        {"USER": "alice"},
    )
    assert config.kafka.properties == {
        "client.id": "seq:1",
        "sasl.username": "alice",
        "sasl.password": "",
    }


def test_the_service_and_the_address_are_filled_in_too():
    tables = {
        "service": {"name": "${NAME:seq}-a", "shards": 4, "checkpoint": "${DIR}/checkpoints"},
        "kafka": {"bootstrap_servers": "${HOST:broker}:9092"},
        "pipelines": {"p": {"discipline": "channel"}},
    }
    config = parse_config(tables, {"DIR": "/data"}, "c.toml")
    assert config.service.name == "seq-a"
    assert config.service.checkpoint == "/data/checkpoints"
    assert config.kafka.bootstrap_servers == "broker:9092"
    with pytest.raises(ConfigError) as refused:
        parse_config(tables, {}, "c.toml")
    assert refused.value.faults == (
        "service.checkpoint: the environment has no DIR; set it before the start, "
        "or write ${DIR:default}",
    )


def test_spark_fills_in_what_it_knows_itself():
    tables = {
        "spark": {
            "spark.local.dir": "${FOLDER:/data}/x",
            "spark.app.name": "${env:HOME}${spark.master}",
        },
        "pipelines": {"p": {"discipline": "channel"}},
    }
    assert parse_config(tables, {}, "c.toml").spark == {
        "spark.local.dir": "/data/x",
        "spark.app.name": "${env:HOME}${spark.master}",
    }


def test_files_are_read(tmp_path):
    secret = tmp_path / "a secret"
    secret.write_text("  geheim \n\n")
    (tmp_path / "windows").write_bytes(b"w\r\n")
    (tmp_path / "empty").touch()
    config = with_properties(
        {
            "sasl.password": f"${{file:{secret}}}",
            "sasl.username": f"<${{file:{tmp_path}/windows}}${{file:{tmp_path}/empty}}${{A}}>",
        },
        {"A": "a"},
    )
    assert config.kafka.properties == {"sasl.password": "  geheim \n", "sasl.username": "<wa>"}
    assert config.hide("it was   geheim \n") == "it was ***"
    assert "geheim" not in repr(config)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff")
    (tmp_path / "large").write_bytes(bytes(1_000_001))
    names = ("missing", "binary", "large", "")
    keys = ("client.id", "sasl.password", "sasl.username", "ssl.ca.pem")
    with pytest.raises(ConfigError) as refused:
        with_properties(
            {key: f"${{file:{tmp_path}/{name}}}" for key, name in zip(keys, names, strict=True)}
        )
    assert refused.value.faults == (
        f'kafka.properties."client.id": {tmp_path}/missing cannot be read: No such file or directory',
        f'kafka.properties."sasl.password": {tmp_path}/binary cannot be read: it is not text in UTF-8',
        f'kafka.properties."sasl.username": {tmp_path}/large has more than 1,000,000 bytes: this is not a secret',
        f'kafka.properties."ssl.ca.pem": {tmp_path}/ cannot be read: Is a directory',
    )


def test_spark_takes_secrets_too_and_keeps_its_own_words(tmp_path):
    (tmp_path / "key").write_text("geheim4\n")
    spark = {
        "spark.hadoop.fs.s3a.secret.key": f"${{file:{tmp_path}/key}}",
        "spark.hadoop.fs.s3a.access.key": "${ACCESS}",
        "spark.driver.extraJavaOptions": "-Dx=${env:HOME}${spark.app.name}",
    }
    tables = {"spark": spark, "pipelines": {"p": {"discipline": "channel"}}}
    config = parse_config(tables, {"ACCESS": "geheim5"}, "c.toml")
    assert config.spark["spark.hadoop.fs.s3a.secret.key"] == "geheim4"
    assert config.spark["spark.hadoop.fs.s3a.access.key"] == "geheim5"
    assert config.spark["spark.driver.extraJavaOptions"] == spark["spark.driver.extraJavaOptions"]
    shown = repr(config) + json.dumps(understood(config)) + config.hide("geheim4, geheim5")
    assert "geheim" not in shown
    with pytest.raises(ConfigError, match="the environment has no ACCESS"):
        parse_config(tables, {}, "c.toml")


@pytest.mark.parametrize(
    "name",
    [
        "spark.ssl.keyPassword",
        "spark.hadoop.fs.s3a.session.token",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.azure.account.key.store.dfs.core.windows.net",
    ],
)
def test_spark_s_properties_whose_names_mark_them_as_secret(name):
    """Also where the file has the secret itself: `check` does not show it, nor a list of processes."""
    tables = {
        "spark": {name: "geheim", "spark.master": "local[1]"},
        "pipelines": {"p": {"discipline": "channel"}},
    }
    config = parse_config(tables, {}, "c.toml")
    assert secret_names(config.spark, config.secrets) == [name]
    assert understood(config)["spark"] == {name: "***", "spark.master": "local[1]"}


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
        ("securty.protocol", "SSL", "no client of Kafka knows it; did you mean security.protocol?"),
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
    assert with_properties(same).kafka.properties == {
        "enable.idempotence": "true",
        "acks": "all",
        "isolation.level": "read_committed",
    }


def test_files_are_read_again(tmp_path):
    """A password that is renewed; one that is gone, or empty for a moment, stays as it was."""
    file = tmp_path / "secret"
    file.write_text("geheim")
    config = with_properties(
        {"sasl.password": f"${{file:{file}}}", "sasl.username": "${A:a}"}, {"A": "alice"}
    )
    expected = {"sasl.password": "geheim", "sasl.username": "alice"}
    for renew in (file.unlink, lambda: file.write_text("")):
        renew()
        config.renew()
        assert config.kafka.properties == expected
    file.write_text("geheim12\n")
    config.renew()
    assert config.kafka.properties == expected | {"sasl.password": "geheim12"}
    assert config.hide("geheim, geheim12") == "***, ***"


def test_what_came_from_the_environment_is_known():
    """A value that was written, a default, and a file's are not from there."""
    properties = {
        "sasl.password": "${SECRET}",
        "sasl.username": "${SECRET}",
        "sasl.kerberos.principal": "${USER:alice}",
        "sasl.jaas.config": 'x password="${OTHER:}${SECRET}";',
        "ssl.key.password": "${file:/dev/null}",
        "ssl.certificate.pem": "${CERTIFICATE:}${SECRET}",
        "ssl.ca.location": "${SECRET}",
    }
    config = with_properties(properties, {"SECRET": "geheim"})
    assert config.from_environment == (
        "sasl.password",
        "sasl.jaas.config",
        "ssl.certificate.pem",
    )


def test_addresses_in_a_file_are_read_again(tmp_path):
    """Those that are gone for a moment, or are none, stay as they were; the environment's, too."""
    file = tmp_path / "addresses"
    file.write_text("one:9092")
    tables = {
        "kafka": {"bootstrap_servers": f"${{file:{file}}}", "properties": {"client.id": "c"}},
        "pipelines": {"p": {"discipline": "channel"}},
    }
    config = parse_config(tables, {}, "test")
    for write in (file.unlink, partial(file.write_text, ""), partial(file.write_text, "one")):
        write()
        config.renew()
        assert config.kafka.bootstrap_servers == "one:9092"
    file.write_text("two:9092, three:9092\n")
    config.renew()
    assert config.kafka.bootstrap_servers == "two:9092,three:9092"
    assert config.kafka.properties == {"client.id": "c"}
    given = parse_config(tables, {"SEQUENCER_BOOTSTRAP_SERVERS": "four:9092"}, "test")
    given.renew()
    assert given.kafka.bootstrap_servers == "four:9092"
