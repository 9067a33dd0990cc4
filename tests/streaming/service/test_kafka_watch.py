"""The watch over Kafka asks brokers that are known, too, where the listed addresses are gone."""

import uuid

from streaming.config.load import parse_config
from streaming.service.kafka_watch import KafkaWatch
from streaming.stopping import Stopping
from tests.addresses import Names, text


def test_kafka_answers_though_all_listed_hosts_were_replaced(broker, monkeypatch):
    names = Names(monkeypatch)
    host, _, port = broker.bootstrap.split(",")[0].rpartition(":")
    listed = f"{uuid.uuid4().hex}.example", 9092
    names.of[listed] = [(host, int(port))]
    tables = {
        "kafka": {"bootstrap_servers": text(listed)},
        "pipelines": {"p": {"discipline": "channel"}},
    }
    noted = []
    watch = KafkaWatch(
        parse_config(tables, {}, "test"), Stopping(), lambda: None, lambda *each: noted.append(each)
    )
    assert watch.answers()
    names.of[listed] = []
    assert watch.answers()
    assert not noted
