"""The command in this process, a configuration for it, topics to send to."""

from __future__ import annotations

import logging
import sys
import uuid

import pytest

from streaming import cli
from tests.kafka_helpers import create_topics
from tests.service_helpers import called, toml
from tests.streaming.cli.rejected import Place


@pytest.fixture
def here(monkeypatch):
    """Gives a function that runs the command in this process: status, stdout, stderr."""
    monkeypatch.delenv("SEQUENCER_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.setattr("streaming.kafka.connection.ANNOUNCED_AFTER_SECONDS", 60)  # a busy machine
    return called


@pytest.fixture
def main(monkeypatch, capsys):
    """Gives a function that runs `main` itself: status, stdout, stderr."""
    monkeypatch.delenv("SEQUENCER_BOOTSTRAP_SERVERS", raising=False)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["sequencer", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, *capsys.readouterr()

    return call


@pytest.fixture
def config(tmp_path):
    """Gives a function that writes a configuration of one channel pipeline; its path."""

    def write(pipeline=None, name="p", **tables):
        tables |= {f'pipelines."{name}"': {"discipline": "channel", **(pipeline or {})}}
        path = tmp_path / "c.toml"
        path.write_text(
            "\n".join(
                f"[{table}]\n" + "".join(f'"{key}" = {toml(of)}\n' for key, of in keys.items())
                for table, keys in tables.items()
            )
        )
        return path

    return write


@pytest.fixture(autouse=True)
def _quiet_again():
    yield
    logging.getLogger("streaming").setLevel(logging.NOTSET)


@pytest.fixture
def topic(broker, topic_prefix):
    create_topics(broker.bootstrap, {topic_prefix + "t": 2})
    return topic_prefix + "t"


@pytest.fixture(scope="module")
def shared(broker):
    """A topic for tests that look at no record of it."""
    name = f"shared-{uuid.uuid4().hex[:8]}"
    create_topics(broker.bootstrap, {name: 2})
    return name


@pytest.fixture
def place(broker, topic_prefix, tmp_path):
    """A pipeline with rejects to send back."""
    return Place(broker, topic_prefix, tmp_path)
