"""What the console remembers goes on whatever it finds: it looks again a second later."""

import socket
import threading
from dataclasses import asdict

from confluent_kafka.admin import AdminClient, NewPartitions

from streaming.arrow.totals import Totals
from streaming.config import load_config, parse_config
from streaming.console import history
from streaming.console.history import Recorder
from streaming.kafka import client_settings, lag
from streaming.kafka.lag import Lag
from streaming.kafka.topics import existing
from streaming.service.checkpoint import Checkpoint
from tests.kafka_helpers import Record, create_topics, produce, until
from tests.secure_broker import PASSWORD
from tests.service_helpers import channel_topics, write_config


def status(seen, **more):
    return {
        "at": f"2026-11-24T03:00:0{seen}.000+00:00",
        "shards": {"0": asdict(Totals(seen=seen)) | more},
    }


def test_figures_of_another_version_are_a_fault_until_they_can_be_read(tmp_path):
    """A newer service was started beside it."""
    config = load_config(write_config(tmp_path, "127.0.0.1:9", {"p": channel_topics("p.")}))
    checkpoint, recorder = Checkpoint.of(config, "p"), Recorder(config)
    known = recorder.pipelines["p"]
    checkpoint.write_status(status(1, of_a_newer_version=1))
    recorder.start()
    try:
        until(lambda: "of_a_newer_version" in known.fault)
        checkpoint.write_status(status(2))
        until(lambda: known.totals.seen == 2 and not known.fault)
    finally:
        recorder.stop()


def test_what_is_no_http_at_the_address_of_metrics_is_no_answer():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            while True:
                with server.accept()[0] as client:
                    client.recv(1000)
                    client.sendall(b"\x15\x03\x03\x00\x02\x02\x50\n")

        threading.Thread(target=answer, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert history.scraped(address) == {}


def test_partitions_that_an_input_is_given_count(tmp_path, broker, topic_prefix):
    """The service reads them, and a console may have been there for months."""
    topics = channel_topics(topic_prefix)
    create_topics(broker.bootstrap, {topics["input"]: 1, topics["commands"]: 1})
    config = load_config(write_config(tmp_path, broker.bootstrap, {"p": topics}))
    recorder = Recorder(config)
    assert recorder._lag("p").records == 0
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (given,) = admin.create_partitions([NewPartitions(topics["input"], 2)]).values()
    given.result(30)
    until(lambda: existing(config)[topics["input"]] == 2)
    produce(broker.bootstrap, topics["input"], [Record(b"k", b"v", partition=1)])
    assert recorder._lag("p").records == 1


def test_a_password_that_is_renewed_in_its_file_is_read_again(
    tmp_path, secure_broker, topic_prefix
):
    """Pages ask Kafka by it, too."""
    topics, secret = channel_topics(topic_prefix), tmp_path / "secret"
    create_topics(secure_broker.bootstrap, {topics["input"]: 1, topics["commands"]: 1})
    secret.write_text("that of before")
    properties = secure_broker.properties("sasl", "PLAIN")
    properties["sasl.password"] = f"${{file:{secret}}}"
    kafka = {"bootstrap_servers": secure_broker.sasl, "properties": properties}
    service = {"checkpoint": str(tmp_path / "checkpoints")}
    tables = {
        "service": service,
        "kafka": kafka,
        "pipelines": {"p": {**topics, "discipline": "channel"}},
    }
    recorder = Recorder(parse_config(tables, {}, "c.toml"))
    recorder._ask()
    assert recorder.pipelines["p"].lag is None
    secret.write_text(PASSWORD)
    recorder._ask()
    assert recorder.pipelines["p"].lag == Lag(0, 0.0)
    secret.write_text("that of tomorrow")
    recorder._ask()
    assert recorder._last_lag is None, "nor is it read by connections of before"


def test_clients_that_have_certificates_of_before_are_made_anew(
    monkeypatch, tmp_path, secure_broker, topic_prefix
):
    """librdkafka reads their files once: the words are the same after they were renewed."""
    monkeypatch.setattr("streaming.kafka.topics.SECONDS_MAX", 3)
    topics, file = channel_topics(topic_prefix), tmp_path / "authority.pem"
    names = (topics["input"], topics["commands"])
    create_topics(secure_broker.bootstrap, dict.fromkeys(names, 1))
    tables = {
        "service": {"checkpoint": str(tmp_path / "checkpoints")},
        "kafka": {
            "bootstrap_servers": secure_broker.ssl,
            "properties": secure_broker.properties("ssl") | {"ssl.ca.location": str(file)},
        },
        "pipelines": {"p": {**topics, "discipline": "channel"}},
    }
    config = parse_config(tables, {}, "c.toml")
    recorder = Recorder(config)
    file.write_bytes(secure_broker.certificates.other_authority.read_bytes())
    old = lag.clients_of(config)
    file.write_bytes(secure_broker.certificates.authority.read_bytes())
    recorder._last_lag = lag.LagReader(config, names, old, announce=False)
    recorder._words = client_settings.words(config)
    recorder._ask()
    assert recorder.pipelines["p"].lag is None
    recorder._ask()
    assert recorder.pipelines["p"].lag == Lag(0, 0.0)
    recorder._forget_clients()
