"""Certificates as files, and configurations of pipelines on the broker."""

import pytest

from streaming.config import parse_config
from tests.secure_broker import make_certificates, missing


@pytest.fixture(scope="session")
def pem(tmp_path_factory):
    if lacks := missing():
        pytest.skip(f"there is no {lacks} to make certificates with")
    return make_certificates(tmp_path_factory.mktemp("pem") / "certificates")[0]


@pytest.fixture
def config(broker, topic_prefix):
    """Gives a function that makes a configuration whose pipelines' names begin as the topics."""

    def make(**pipelines):
        tables = {
            "kafka": {"bootstrap_servers": broker.bootstrap},
            "pipelines": {
                topic_prefix + name: {"discipline": "channel", **each}
                for name, each in pipelines.items()
            },
        }
        return parse_config(tables, {}, "c.toml")

    return make
