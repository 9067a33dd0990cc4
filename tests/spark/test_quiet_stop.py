"""A stop is quiet: SIGTERM to the whole process group, again and again, at any moment.

During batches: `tests/faults/test_all_disciplines.py`.
"""

import subprocess
import sys
import time

import pytest

from streaming.kafka.embedded import EmbeddedBroker
from tests.faults.kills import stop_quietly
from tests.kafka_helpers import Record, create_topics, produce
from tests.service_helpers import Service, channel_topics, status, write_config

pytestmark = pytest.mark.timeout(900)


def make(folder, bootstrap, prefix):
    create_topics(bootstrap, {f"{prefix}in": 2})
    topics = {**channel_topics(prefix), "commands": f"{prefix}commands"}
    return write_config(folder, bootstrap, {"p": topics})


def send(bootstrap, prefix, labels):
    rows = [
        Record(b"k%d" % key, b"v", [("label", b"%d" % label)])
        for label in labels
        for key in range(50)
    ]
    produce(bootstrap, f"{prefix}in", rows)


@pytest.mark.parametrize(
    "pause", [1.5, *(pytest.param(other, marks=pytest.mark.slow) for other in (0, 4))]
)
def test_during_start_up(broker, topic_prefix, tmp_path, pause):
    config = make(tmp_path, broker.bootstrap, topic_prefix)
    with Service(config) as service:
        service.until((tmp_path / "checkpoints" / "p" / "lock").exists)
        time.sleep(pause)
        assert stop_quietly(service) == 0, service.said()


def test_while_kafka_is_away(topic_prefix, tmp_path):
    with EmbeddedBroker(tmp_path / "kafka") as broker:
        config = make(tmp_path, broker.bootstrap, topic_prefix)
        send(broker.bootstrap, topic_prefix, range(5))
        service = Service(config)
        with service:
            service.until(lambda: status(config)["p"]["delivered"])
            send(broker.bootstrap, topic_prefix, range(5, 9))
            broker.stop()
            time.sleep(3)
            assert stop_quietly(service) == 0, service.said()


ENDING = """
from pyspark.sql import SparkSession
from streaming.config import parse_config
from streaming.spark.session import spark_session

usual = SparkSession.stop

def log(session, text):
    loggers = session.sparkContext._jvm.org.apache.logging.log4j.LogManager
    loggers.getRootLogger().error(text)

def stop(session):
    log(session, "in the end")
    usual(session)

SparkSession.stop = stop
tables = {"pipelines": {"p": {"discipline": "channel"}}}
with spark_session(parse_config(tables, {}, "c.toml")) as session:
    log(session, "before")
"""


def test_what_spark_logs_while_it_ends_is_not_shown():
    """Its threads miss each other then, in stack traces."""
    ended = subprocess.run(
        [sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=300, check=True
    )
    assert "before" in ended.stderr
    assert "in the end" not in ended.stderr
