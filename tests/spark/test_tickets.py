"""Kerberos for longer than a ticket and a session are good, with a center that stops answering."""

import signal
import time

import pytest

from tests import kerberos, secure_broker
from tests.kafka_helpers import Record, produce, read_all
from tests.service_helpers import Service, verify
from tests.spark.secured import grant_least, wait_for_rights, write

TICKET_SECONDS = 40
SESSION_SECONDS = 10
AWAY_SECONDS = 150
"""Longer than tickets and clock skew; MIT's library gives up after about two minutes."""
CHANNELS = 5


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_tickets_and_sessions_end(topic_prefix, tmp_path):
    if lacks := kerberos.missing():
        pytest.skip(f"there is no {lacks} for a realm of Kerberos")
    ended = {"listener.name.kerberos.connections.max.reauth.ms": f"{SESSION_SECONDS * 1000}"}
    with secure_broker.running(tmp_path / "broker", TICKET_SECONDS, ended) as broker:
        user = f"{topic_prefix}ticket".replace(".", "-").lower()
        broker.realm.keytab(user)
        properties = broker.properties("kerberos", user=user)
        config = write(broker, topic_prefix, tmp_path, "kerberos", properties)
        grant_least(broker, user, topic_prefix, tmp_path.name)
        wait_for_rights(config)
        sent = 0

        def send(seconds):
            """About one record a second."""
            nonlocal sent
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                label, channel = divmod(sent, CHANNELS)
                record = Record(b"k%d" % channel, b"", [("label", b"%d" % label)])
                produce(broker.bootstrap, f"{topic_prefix}in", [record])
                sent += 1
                assert service.poll() is None, service.said()
                time.sleep(1)

        def is_delivered():
            return len(read_all(broker.bootstrap, f"{topic_prefix}out")) == sent

        with Service(config) as service:
            send(3 * TICKET_SECONDS)
            service.until(is_delivered)
            broker.realm.center.send_signal(signal.SIGSTOP)
            send(AWAY_SECONDS)
            broker.realm.center.send_signal(signal.SIGCONT)
            send(TICKET_SECONDS)
            service.until(is_delivered)
            assert "no Kerberos ticket" in service.said()
            assert service.stop() == 0, service.said()
        code, told = verify(config)
        assert code == 0, told
