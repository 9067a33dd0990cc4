"""A topic of three partitions, and connections of our own."""

import uuid

import pytest

from streaming.wire.brokers import Brokers
from tests.kafka_helpers import create_topics


@pytest.fixture
def topic(broker):
    name = f"source-{uuid.uuid4().hex[:8]}"
    create_topics(broker.bootstrap, {name: 3})
    return name


@pytest.fixture
def brokers(broker):
    given = Brokers({"bootstrap_servers": broker.bootstrap.split(",")})
    yield given
    given.manager.close()
