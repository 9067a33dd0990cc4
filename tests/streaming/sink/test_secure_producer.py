"""The service's producer and reader through TLS, passwords, tokens and tickets."""

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from streaming.arrow.schemas import HEADERS
from streaming.config.load import parse_config
from streaming.disciplines.plan import BatchContext
from streaming.errors import KafkaUnavailable
from streaming.kafka import client_settings
from streaming.kafka.choice import brokers_of, own_settings
from streaming.sink import writer as writers
from streaming.sink.lookup import look_up
from streaming.sink.progress import BatchProgress
from streaming.sink.writer import writer_for
from streaming.source.fetching import Fetching
from streaming.source.ranges import Range
from streaming.wire.bounds import LATEST, BoundsReader
from streaming.wire.fetched import tables
from tests import kerberos
from tests.kafka_helpers import read_all
from tests.secure_broker import USER
from tests.streaming.sink import numbered

TABLE = pa.table(
    {"key": [b"k"], "value": [b"v"], "headers": pa.nulls(1, HEADERS), "timestamp": [7]}
)
WAYS = {
    "a token": ("oauth", "", False),
    "a ticket": ("kerberos", "", False),
    "TLS": ("ssl", "", False),
    "a certificate": ("mutual", "", False),
    "a certificate in texts": ("mutual", "", True),
    "a password": ("sasl", "PLAIN", False),
    "a password by SCRAM-SHA-256": ("sasl", "SCRAM-SHA-256", False),
    "a password through TLS": ("sasl_ssl", "SCRAM-SHA-512", False),
}


def make_plan(secure_broker, prefix, way, mechanism, *, texts, user=USER):
    properties = secure_broker.properties(way, mechanism, user)
    if texts:
        for name in ("ca", "certificate", "key"):
            properties[f"ssl.{name}.pem"] = Path(properties.pop(f"ssl.{name}.location")).read_text()
    tables = {
        "kafka": {"bootstrap_servers": getattr(secure_broker, way), "properties": properties},
        "pipelines": {"p": {"discipline": "channel"}},
    }
    words = client_settings.words(parse_config(tables, {}, "test"))
    return numbered.make_plan(secure_broker, prefix, count=1, producer=words)


@pytest.mark.parametrize("way", WAYS)
def test_a_transaction_through(secure_broker, topic_prefix, way):
    name, mechanism, texts = WAYS[way]
    if name == "kerberos" and (lacks := kerberos.missing()):
        pytest.skip(f"there is no {lacks} for a realm of Kerberos")
    plan = make_plan(secure_broker, topic_prefix, name, mechanism, texts=texts)
    writer = writer_for(plan, 0, BatchContext("q", 0, False))
    with writer.batch(BatchContext("q", 0)):
        writer.producer.write(plan.output, TABLE, np.zeros(1, np.int32), [])
    (found,) = read_all(secure_broker.bootstrap, plan.output)
    assert (found.key, found.value, found.timestamp) == (b"k", b"v", 7)
    writers._writers.clear()
    found = writer_for(plan, 0, BatchContext("q", 0, True))
    assert isinstance(found, BatchProgress), "the progress was committed"
    connections = brokers_of(own_settings(plan.producer))
    assert BoundsReader(connections, [plan.output])(LATEST)[plan.output][0].offset == 2
    fetched = Fetching(connections, [Range(plan.output, 0, 0, 0, 1)])
    assert [table["value"].to_pylist() for table in tables(fetched, 2**20)] == [[b"v"]]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_named_at_once_and_without_it(secure_broker, topic_prefix, mechanism):
    plan = make_plan(secure_broker, topic_prefix, "sasl", mechanism, texts=False)
    plan = dataclasses.replace(plan, producer={**plan.producer, "sasl.password": "another"})
    with pytest.raises(KafkaUnavailable, match=r"Authentication failed.*rights of") as told:
        writer_for(plan, 0, BatchContext("q", 0, False))
    assert "another" not in str(told.value)


def test_a_right_that_is_missing_is_named_with_its_topic(secure_broker, topic_prefix):
    user = f"{topic_prefix}user"
    plan = make_plan(secure_broker, topic_prefix, "oauth", "", texts=False, user=user)
    rights = [
        ("Write", "TransactionalId", f"{plan.service}*"),
        ("Read", "Group", plan.service + "*"),
    ]

    def refused():
        writers._writers.clear()
        context = BatchContext("q", 0)
        writer = writer_for(plan, 0, context)
        with pytest.raises(KafkaUnavailable) as told, writer.batch(context):
            writer.producer.write(plan.output, TABLE, np.zeros(1, np.int32), [])
        return str(told.value)

    secure_broker.grant(user, [*rights, ("Describe", "Topic", f"{topic_prefix}*")])
    assert f"TOPIC_AUTHORIZATION_FAILED ({plan.output})" in refused()
    secure_broker.grant(user, [("Write", "Topic", plan.output)])
    assert f"TOPIC_AUTHORIZATION_FAILED ({plan.events})" in refused()


@pytest.mark.parametrize("create", [True, False])
def test_a_subscriber_s_topic_that_may_not_be_seen_is_not_taken_for_missing(
    secure_broker, topic_prefix, create
):
    user = f"{topic_prefix}user"
    plan = make_plan(secure_broker, topic_prefix, "oauth", "", texts=False, user=user)
    plan = dataclasses.replace(plan, output=f"{topic_prefix}{{subscriber}}", create_topics=create)
    secure_broker.grant(user, [("Create", "Topic", f"{topic_prefix}*")])
    with pytest.raises(
        KafkaUnavailable, match=rf"TOPIC_AUTHORIZATION_FAILED \({topic_prefix}out\)"
    ):
        look_up(plan, f"{topic_prefix}out")
