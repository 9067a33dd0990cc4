"""Schemas from a registry (a real server, over HTTP): asked for once, waited for, kept."""

import json
import socket
import threading
from contextlib import suppress

import pytest

from streaming.config import parse_config
from streaming.errors import ConfigError, RegistryUnavailable
from streaming.kafka import registry as registries
from streaming.kafka.registry import Registry
from streaming.service import schemas as keeping
from streaming.service.decisions import Decisions
from streaming.service.schemas import AskedSchemas, SchemaKeeper, StopRequested, fetched
from streaming.values.schemas import KNOWN, UNKNOWN, Schema
from tests.checkpoints import MemoryCheckpoint
from tests.kafka_helpers import until
from tests.registry import TestRegistry

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "seq", "type": "long"}]}
WAIT_SECONDS_MAX = 60


@pytest.fixture
def registry(tmp_path):
    with TestRegistry(tmp_path) as server:
        yield server


class Keeping:
    """A keeper over a checkpoint in memory; ``waited``: what it said that it waits for."""

    def __init__(self, url, checkpoint):
        self.checkpoint, self.waited, self.stopping = checkpoint, [], threading.Event()
        decisions = Decisions(checkpoint)
        self.keeper = SchemaKeeper(
            decisions, Registry(url, {}), "p", self.waited.append, self.stopping
        )


def test_a_schema_is_asked_for_once_in_the_life_of_a_checkpoint(registry):
    number = registry.register("orders-value", ORDER)
    checkpoint = MemoryCheckpoint()
    checkpoint.offsets[0] = "a"
    mine = Keeping(registry.url, checkpoint)
    assert mine.keeper.known(0) == {KNOWN: {}}
    found = mine.keeper.find([number, 99], 0)
    assert Schema.unpacked(found[KNOWN][str(number)]) == Schema("AVRO", json.dumps(ORDER))
    assert found[UNKNOWN] == [99]
    registry.stop()
    again = Keeping(registry.url, checkpoint)
    assert again.keeper.known(0)[KNOWN] == found[KNOWN], "after a restart, without the registry"
    assert again.keeper.decisions.findings(0) == {UNKNOWN: [99]}
    checkpoint.done, checkpoint.offsets[1] = 0, "b"
    later = Keeping(registry.url, checkpoint).keeper
    assert later.known(1)[KNOWN] == found[KNOWN]
    assert later.decisions.findings(1) == {}, "what was unknown is asked for again"
    assert mine.waited == again.waited == []


def test_a_batch_that_is_repeated_does_not_know_what_came_since(registry):
    checkpoint = MemoryCheckpoint()
    checkpoint.offsets[3] = "a"
    mine = Keeping(registry.url, checkpoint)
    assert mine.keeper.find([1], 3) == {KNOWN: {}, UNKNOWN: [1]}
    assert registry.register("orders-value", ORDER) == 1
    found = Keeping(registry.url, checkpoint).keeper.find([2], 3)
    assert found == {KNOWN: {}, UNKNOWN: [1, 2]}


def test_a_registry_that_is_away_is_waited_for(registry):
    number = registry.register("orders-value", ORDER)
    registry.stop()
    mine = Keeping(registry.url, MemoryCheckpoint())
    found = []
    asking = threading.Thread(
        target=lambda: found.append(mine.keeper.find([number], 0)), daemon=True
    )
    asking.start()
    until(lambda: len(mine.waited) >= 2)
    assert mine.waited[0] == f"schema {number} of the registry at {registry.url}"
    registry.start()
    asking.join(WAIT_SECONDS_MAX)
    assert [*found[0][KNOWN]] == [str(number)]
    assert mine.waited[-1] == ""


def test_who_waits_is_told_to_stop():
    mine = Keeping("http://127.0.0.1:9", MemoryCheckpoint())
    ended = threading.Event()

    def ask():
        with pytest.raises(StopRequested):
            mine.keeper.find([1], 0)
        ended.set()

    threading.Thread(target=ask, daemon=True).start()
    assert not ended.wait(0.3)
    mine.stopping.set()
    assert ended.wait(WAIT_SECONDS_MAX)
    assert mine.checkpoint.kept == "{}"


def test_schemas_that_refer_to_others(registry):
    registry.register("order", ORDER)
    line = {"type": "record", "name": "Line", "fields": [{"name": "order", "type": "Order"}]}
    registry.register(
        "line", line, references=[{"name": "Order", "subject": "order", "version": 1}]
    )
    whole = {"type": "record", "name": "T", "fields": [{"name": "a", "type": "Line"}, {"name": "b", "type": "Order"}]}  # fmt: skip
    number = registry.register("whole", whole, references=[
        {"name": "Line", "subject": "line", "version": 1},
        {"name": "Order", "subject": "order", "version": 1},
    ])  # fmt: skip
    schema = fetched(Registry(registry.url, {}), number)
    assert schema.references == (json.dumps(ORDER), json.dumps(line))
    assert not schema.unusable
    missing = registry.register(
        "odd", whole, references=[{"name": "X", "subject": "x/y", "version": 3}]
    )
    assert "which the registry has not got" in fetched(Registry(registry.url, {}), missing).unusable
    odd = registry.register("odder", whole, references=[{"name": "X"}])
    assert fetched(Registry(registry.url, {}), odd).unusable == "its references are none"


def test_a_schema_is_read_with_references_that_were_deleted_with_it(registry):
    registry.register("order", ORDER, deleted=True)
    refers = [{"name": "Order", "subject": "order", "version": 1}]
    line = {"type": "record", "name": "Line", "fields": [{"name": "order", "type": "Order"}]}
    number = registry.register("line", line, references=refers, deleted=True)
    schema = fetched(Registry(registry.url, {}), number)
    assert (schema.unusable, schema.references) == ("", (json.dumps(ORDER),))


def test_what_could_not_be_used_is_asked_for_again(registry):
    refers = [{"name": "Order", "subject": "order", "version": 1}]
    line = {"type": "record", "name": "Line", "fields": [{"name": "order", "type": "Order"}]}
    number = str(registry.register("line", line, references=refers))
    checkpoint = MemoryCheckpoint()
    checkpoint.offsets[0] = "a"
    mine = Keeping(registry.url, checkpoint)
    found = mine.keeper.find([int(number)], 0)
    assert "has not got" in Schema.unpacked(found[KNOWN][number]).unusable
    registry.register("order", ORDER)
    again = Keeping(registry.url, checkpoint).keeper
    assert again.known(0)[KNOWN] == found[KNOWN], "a batch that is repeated reads as it did"
    checkpoint.done, checkpoint.offsets[1] = 0, "b"
    assert mine.keeper.known(1)[KNOWN] == again.known(1)[KNOWN] == {}
    found = again.find([int(number)], 1)
    assert not Schema.unpacked(found[KNOWN][number]).unusable


def test_what_cannot_be_used_is_kept_as_such(registry, monkeypatch):
    odd = registry.register("odd", '{"type": "record"}')
    other = registry.register("json", "{}", schemaType="JSON")
    monkeypatch.setattr(registries, "SCHEMA_BYTES_MAX", 1000)
    large = registry.register("large", {**ORDER, "doc": "x" * 1000})
    asked = Registry(registry.url, {})
    assert fetched(asked, odd).unusable == "it is not a schema of Avro"
    assert fetched(asked, other) == Schema("JSON")
    long = registry.register("long", json.dumps("x" * 10_000), schemaType="x" * 10_000)
    assert len(fetched(asked, long).kind) < 100
    assert len(fetched(asked, registry.register("long", json.dumps("x" * 900))).unusable) < 300
    refers = [{"name": "X", "subject": "x", "version": float("inf")}]
    endless = registry.register("endless", {"type": "int"}, references=refers)
    assert fetched(asked, endless).unusable == "its references are none"
    assert fetched(asked, large).unusable == registries.TOO_LARGE
    assert fetched(asked, 99) is None


def test_the_oldest_are_forgotten_but_not_for_a_batch_that_was_planned(registry, monkeypatch):
    numbers = [registry.register("s", {**ORDER, "name": f"O{n}"}) for n in range(4)]
    monkeypatch.setattr(keeping, "KEPT_MAX", 2)
    checkpoint = MemoryCheckpoint()
    checkpoint.offsets[0] = "a"
    Keeping(registry.url, checkpoint).keeper.find(numbers, 0)
    again = Keeping(registry.url, checkpoint).keeper
    assert [*again.known(0)[KNOWN]] == [str(n) for n in numbers]
    assert [*again.known(1)[KNOWN]] == [str(n) for n in numbers[2:]]


def test_a_user_and_several_addresses(tmp_path):
    with TestRegistry(tmp_path, "ann:secret") as server:
        number = server.register("s", ORDER)
        with pytest.raises(RegistryUnavailable, match="it answers 401") as refused:
            Registry(server.url, {"basic.auth.user.info": "ann:wrong-one"}).schema(number)
        assert "wrong-one" not in str(refused.value)
        assert "kafka.schema_registry" in refused.value.remedy
        right = {"basic.auth.user.info": "ann:secret"}
        both = Registry(f"http://127.0.0.1:9, {server.url}/", right)
        assert both.schema(number)["schema"] == json.dumps(ORDER)
        both.is_there()


def test_a_password_that_changes_in_its_file_is_read_while_the_registry_refuses(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("old-word\n")
    with TestRegistry(tmp_path, "ann:new-word") as server:
        number = server.register("s", ORDER)
        written = {"basic.auth.user.info": f"ann:${{file:{secret}}}"}
        table = kafka(schema_registry=server.url, schema_registry_properties=written)
        config = parse_config(table, {}, "c.toml")
        asked = Registry.of(config)
        secret.write_text("new-word\n")
        with pytest.raises(RegistryUnavailable, match="it answers 401"):
            asked.schema(number)
        assert asked.schema(number)["schema"] == json.dumps(ORDER)
    assert config.hide("new-word, old-word") == "***, ***"


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-x\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n<html>",
        b"",
        b"HTTP/1.1 404 Not Found\r\n\r\n404 page not found",  # a proxy's, before no registry
        b'HTTP/1.1 404 Not Found\r\n\r\n{"error_code": 404, "message": "no such path"}',
    ],
)
def test_what_is_no_registry_is_away(said):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            for _ in range(2):
                with suppress(OSError):  # one try may be enough, and the test ends
                    connection, _ = server.accept()
                    with connection:
                        connection.recv(10_000)
                        connection.sendall(said)

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(RegistryUnavailable, match="is away"):
            Registry(f"http://127.0.0.1:{server.getsockname()[1]}", {}).schema(1)


def test_schemas_for_work_outside_of_the_service(registry):
    number = registry.register("s", ORDER)
    asked = AskedSchemas(Registry(registry.url, {}))
    seen = []

    def work(schemas):
        seen.append((set(schemas.known), set(schemas.unknown)))
        schemas.require([number, 9])
        return "done"

    assert asked(work) == asked(work) == "done"
    assert seen == [(set(), set()), ({number}, {9}), ({number}, {9})]


def kafka(**more):
    pipelines = {"p": {"discipline": "channel", "label": {"avro": "seq"}}}
    return {"pipelines": pipelines, "kafka": more}


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({}, "pipelines.p: reads fields of values in Avro or Protobuf, which takes schemas; write"),
        ({"schema_registry": "host:8081"}, "kafka.schema_registry: 'host:8081' is not an address of a"),
        ({"schema_registry": "http://a:b@host"}, "kafka.schema_registry: 'http://***@host' is no"),
        ({"schema_registry": "http://h", "schema_registry_properties": {"basic.auth": "x"}},
         'kafka.schema_registry_properties."basic.auth": unknown; did you mean basic.auth.user.info?'),
    ],
)  # fmt: skip
def test_faults_of_the_configuration(table, told):
    with pytest.raises(ConfigError) as refused:
        parse_config(kafka(**table), {}, "c.toml")
    assert told in "\n".join(refused.value.faults)


def test_secrets_come_from_the_environment_and_are_never_shown():
    written = {"basic.auth.user.info": "ann:${SECRET_WORD}", "ssl.ca.location": "/none.pem"}
    table = kafka(schema_registry="https://host:1/x", schema_registry_properties=written)
    config = parse_config(table, {"SECRET_WORD": "abracadabra"}, "c.toml")
    assert config.kafka.schema_registry_properties["basic.auth.user.info"] == "ann:abracadabra"
    assert config.hide("with abracadabra") == "with ***"
    assert "abracadabra" not in repr(config)
    with pytest.raises(ConfigError, match="certificates cannot be read"):
        Registry.of(config).validate()
