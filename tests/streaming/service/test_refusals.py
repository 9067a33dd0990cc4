"""Kafka refuses this user: said each hour; ended where only a new process has the new secret."""

from types import SimpleNamespace

import pytest

from streaming.config import parse_config
from streaming.errors import FileUnusable, JobFailed, KafkaUnavailable
from streaming.service import kafka_watch, refusals
from streaming.service.refusals import APART_SECONDS_MAX, REFUSED_SECONDS_MAX, SAID_EVERY_SECONDS
from streaming.service.restarts import Restarts
from streaming.stopping import Stopping
from tests.secure_broker import PASSWORD

STEP_SECONDS = 100.0
ASKED_MAX = 60
OLD = "that of before"


class World:
    """A watch over a real broker, and a clock; ``said``: what it said."""

    def __init__(self, monkeypatch, address, properties, environ=None):
        self.config = config_of(address, properties, environ or {})
        self.now, self.said, self.noted = 1000.0, [], []
        clock = SimpleNamespace(monotonic=lambda: self.now)
        monkeypatch.setattr(refusals, "time", clock)
        monkeypatch.setattr(kafka_watch, "say", lambda text, **_: self.said.append(text))
        self.watch = kafka_watch.KafkaWatch(
            self.config, Stopping(), self.ask, lambda *each: self.noted.append(each)
        )
        self.asked = 0

    def ask(self):
        self.asked += 1
        assert self.asked < ASKED_MAX, "it waits without an end"

    def passes(self, seconds):
        """So much time in which Kafka is asked again and again; whether it answers at the end."""
        until, answers = self.now + seconds, False
        while self.now < until:
            answers = self.watch.answers()
            self.now += STEP_SECONDS
        return answers


def config_of(address, properties, environ):
    kafka = {"bootstrap_servers": address, "properties": properties}
    tables = {"kafka": kafka, "pipelines": {"p": {"discipline": "channel"}}}
    return parse_config(tables, environ, "c.toml")


@pytest.fixture
def by_password(monkeypatch, secure_broker):
    """Makes a world whose secret is the variable SECRET, with a password of before."""

    def make(written="${SECRET}", **more):
        properties = secure_broker.properties("sasl", "PLAIN") | {"sasl.password": written} | more
        return World(monkeypatch, secure_broker.sasl, properties, {"SECRET": OLD, "HOSTNAME": "h"})

    return make


def in_environment(broker, name):
    """The address, the properties and the environment, with a secret of before in a variable."""
    if name == "ssl.ca.pem":
        other = broker.certificates.other_authority.read_text()
        return broker.ssl, {"security.protocol": "SSL", name: "${SECRET}"}, {"SECRET": other}
    properties = broker.properties("sasl", "PLAIN")
    if name == "sasl.jaas.config":
        user, _ = properties.pop("sasl.username"), properties.pop("sasl.password")
        module = f'org.x.PlainLoginModule required username="{user}" password="${{SECRET}}";'
        return broker.sasl, {**properties, name: module}, {"SECRET": OLD}
    return broker.sasl, {**properties, name: "${SECRET}"}, {"SECRET": OLD}


@pytest.mark.parametrize("name", ["sasl.password", "sasl.jaas.config", "ssl.ca.pem"])
def test_a_secret_from_the_environment_takes_a_new_start(monkeypatch, secure_broker, name):
    world = World(monkeypatch, *in_environment(secure_broker, name))
    assert not world.passes(REFUSED_SECONDS_MAX)
    (said,) = world.said
    assert "is that of the start" in said
    assert "after 10 minutes, the service ends with status 1" in said
    with pytest.raises(JobFailed) as ended:
        world.passes(STEP_SECONDS)
    assert ended.value.exit_status == 1
    assert f"{name} is from the environment" in ended.value.message
    assert OLD not in str(ended.value) + said
    assert world.noted == [("kafka-away", said, "")]


@pytest.mark.parametrize("is_in_file", [True, False])
def test_other_secrets_are_waited_for_and_the_refusal_is_said_each_hour(
    tmp_path, by_password, is_in_file
):
    """Also if a property that proves nothing is from the environment."""
    file = tmp_path / "secret"
    file.write_text(OLD)
    password = f"${{file:{file}}}" if is_in_file else OLD
    others = {"client.id": "${HOSTNAME}", "ssl.key.password": "${SECRET}"}
    if is_in_file:
        others |= {"sasl.oauthbearer.client.secret": "${SECRET}"}
    world = by_password(password, **others)
    assert not world.passes(SAID_EVERY_SECONDS)
    assert len(world.said) == 1
    assert not world.passes(STEP_SECONDS)
    assert len(world.said) == 2
    assert "is that of the start" in world.said[1]
    assert "ends" not in world.said[1]
    file.write_text(PASSWORD)
    world.config.kafka.properties["sasl.password"] = PASSWORD
    assert world.passes(STEP_SECONDS)
    assert world.said[2:] == ["Kafka is back."]


def test_a_refusal_is_said_also_if_kafka_was_away_before(by_password):
    """Brokers are restarted, and refuse us then."""
    world = by_password()
    world.watch.config = config_of("127.0.0.1:1", {}, {})
    assert not world.passes(2 * STEP_SECONDS)
    assert len(world.said) == 1
    world.watch.config = world.config
    assert not world.passes(REFUSED_SECONDS_MAX)
    assert len(world.said) == 2
    assert "refuses this user" in world.said[1]


def test_refusals_that_are_far_apart_do_not_add_up(by_password):
    """As one broker may give that has just started and knows no passwords yet."""
    world = by_password()
    for _ in range(4):
        assert not world.watch.answers()
        world.now += APART_SECONDS_MAX + REFUSED_SECONDS_MAX


def test_the_service_ends_whatever_it_waits_for(monkeypatch, by_password):
    """The start of the whole, and that of a pipeline."""
    monkeypatch.setattr(refusals, "REFUSED_SECONDS_MAX", 0.0)
    world = by_password()
    with pytest.raises(JobFailed):
        world.watch.insist(lambda: None)
    looking = Restarts(world.watch, lambda *_: None, once=False)
    looking._tries["p"].due = 0.0
    with pytest.raises(JobFailed):
        looking.look_after([SimpleNamespace(name="p", ended=False)], again=False)


def test_what_is_no_refusal():
    """A file of a certificate of ours that is being renewed, a broker that is away."""
    half = FileUnusable("ssl.certificate.location cannot be used")
    for cause in (half, OSError("connection refused"), None):
        error = KafkaUnavailable("Kafka does not answer.")
        error.__cause__ = cause
        assert not refusals.is_refusal(error)
    assert not refusals.is_refusal(half)


@pytest.mark.parametrize(
    "renewed",
    [
        {},
        {"ssl.keystore.location": "/certs/k.p12"},
        {"ssl.ca.location": "/certs/ca.pem"},
    ],
)
def test_what_a_connection_reads_anew_may_be_what_is_renewed(renewed):
    """A keystore has a password, which may be from the environment and stay."""
    properties = {"security.protocol": "SSL", "ssl.keystore.password": "${SECRET}", **renewed}
    looking = refusals.Refusals(config_of("127.0.0.1:1", properties, {"SECRET": OLD}))
    assert looking._of_the_start("ssl.") == ([] if renewed else ["ssl.keystore.password"])
    assert looking._of_the_start("sasl.") == []
