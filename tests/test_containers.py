"""Which Kafka the tests run with. No engine is needed: the container is a fake here."""

from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
import yaml

from tests import containers

ROOT = Path(__file__).parents[1]


@contextmanager
def fake(*_, **__):
    yield "a broker"


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch):
    class Embedded:
        bootstrap = "embedded"

    monkeypatch.setattr(containers, "EmbeddedBroker", lambda **_: nullcontext(Embedded))
    monkeypatch.setattr(containers, "engine_answers", lambda: True)
    monkeypatch.setattr(containers, "in_container", fake)
    monkeypatch.delenv(containers.ASKED, raising=False)


def chosen():
    with containers.kafka({}) as bootstrap:
        return bootstrap


def test_it_is_in_a_container_where_an_engine_answers():
    assert chosen() == "a broker"


def test_else_it_is_embedded(monkeypatch):
    monkeypatch.setattr(containers, "engine_answers", lambda: False)
    assert chosen() == "embedded"


def test_likewise_where_the_container_does_not_start_which_is_said(monkeypatch, capsys):
    monkeypatch.setattr(containers, "in_container", lambda _: 1 / 0)
    assert chosen() == "embedded"
    assert "Kafka is embedded; no container: division by zero" in capsys.readouterr().err


def test_it_can_be_said(monkeypatch):
    monkeypatch.setenv(containers.ASKED, "0")
    assert chosen() == "embedded"
    monkeypatch.setenv(containers.ASKED, "1")
    monkeypatch.setattr(containers, "in_container", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        chosen()


def test_the_container_is_told_what_the_compose_file_tells_its_brokers():
    given = containers.variables(9999, {"log.retention.ms": "-1"})
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    broker = services["kafka1"]
    assert containers.image() == broker["image"]
    names = {name for name in broker["environment"] if "REPLICA" not in name}
    assert names - set(given) <= {"KAFKA_INTER_BROKER_LISTENER_NAME", "KAFKA_LOG_DIRS"}
    assert given["KAFKA_LOG_RETENTION_MS"] == "-1"
    assert given["KAFKA_ADVERTISED_LISTENERS"] == "PLAINTEXT://localhost:9999"
