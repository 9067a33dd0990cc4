"""What is alive, and what hangs."""

import time
from types import SimpleNamespace

import pytest

from streaming.config import parse_config
from streaming.service.metrics import health
from streaming.service.metrics.health import Health

TABLES = {"service": {"hung_after": "10 min"}, "pipelines": {"p": {"discipline": "channel"}}}
LIMIT_S = 600


def pipeline(*, quiet_s=0.0, runs=True, finished=False):
    worked = time.time() - quiet_s
    return SimpleNamespace(name="p", runs=runs, finished=finished, worked=worked)


def judged(*pipelines, loop_quiet_s=0.0, kafka=True):
    judge = Health(parse_config(TABLES, {}, "test"), list(pipelines), lambda: kafka)
    judge._beaten -= loop_quiet_s
    return judge.fault()


def test_a_service_at_work_or_idle_is_alive():
    assert judged() is None
    assert judged(pipeline(quiet_s=LIMIT_S - 5)) is None


def test_a_hung_batch_is_not():
    assert "p: no batch has ended for 6" in judged(pipeline(quiet_s=LIMIT_S + 5))


def test_nor_is_a_hung_loop():
    assert "loop has not gone round" in judged(pipeline(), loop_quiet_s=LIMIT_S + 5)


@pytest.mark.parametrize("pipelines", [[], [pipeline(runs=False, quiet_s=9 * LIMIT_S)]])
def test_waiting_for_executors_or_a_start_is_no_hanging(pipelines):
    assert judged(*pipelines, loop_quiet_s=0 if pipelines else 9 * LIMIT_S) is None


def test_while_kafka_is_away_nothing_hangs():
    assert judged(pipeline(quiet_s=9 * LIMIT_S), loop_quiet_s=9 * LIMIT_S, kafka=False) is None


def test_kafka_is_asked(broker):
    tables = {**TABLES, "kafka": {"bootstrap_servers": broker.bootstrap}}
    assert health._kafka_answers(parse_config(tables, {}, "test"))
    tables["kafka"] = {"bootstrap_servers": "127.0.0.1:1"}
    assert not health._kafka_answers(parse_config(tables, {}, "test"))


@pytest.mark.parametrize("way", ["a password", "a certificate"])
def test_kafka_that_refuses_us_is_not_away(secure_broker, way):
    """A secret was changed: a batch that hangs over connections of before hangs all the same."""
    properties = secure_broker.properties("sasl", "PLAIN") | {"sasl.password": "that of before"}
    address = secure_broker.sasl
    if way == "a certificate":
        properties = secure_broker.properties("ssl")
        properties["ssl.ca.location"] = str(secure_broker.certificates.other_authority)
        address = secure_broker.ssl
    tables = {**TABLES, "kafka": {"bootstrap_servers": address, "properties": properties}}
    hung = pipeline(quiet_s=LIMIT_S + 5)
    assert "no batch has ended" in Health(parse_config(tables, {}, "test"), [hung]).fault()


def test_while_a_file_of_ours_is_half_written_nothing_hangs(tmp_path, secure_broker):
    """The next start would refuse it."""
    file = tmp_path / "authority.pem"
    file.write_text("-----BEGIN CERTIFICATE-----")
    properties = secure_broker.properties("ssl") | {"ssl.ca.location": str(file)}
    tables = {**TABLES, "kafka": {"bootstrap_servers": secure_broker.ssl, "properties": properties}}
    assert not health._kafka_answers(parse_config(tables, {}, "test"))


def test_who_is_missing():
    config = parse_config(TABLES, {}, "test")
    assert Health(config, []).missing() == "starting"
    assert Health(config, [pipeline(runs=False)]).missing() == "not running: p"
    assert Health(config, [pipeline(), pipeline(runs=False, finished=True)]).missing() is None
