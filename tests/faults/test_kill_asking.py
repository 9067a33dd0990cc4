"""Kill -9 of the service while it asks for what is missing, with a real producer that answers."""

import json
import random

import pytest

from streaming import LabelledProducer
from streaming.clients.labelled import Sent
from tests.faults.kills import kill_workers, wait_at_random
from tests.kafka_helpers import create_topics, read_all
from tests.service_helpers import Service, channel_topics, status, verify, write_config

KEYS = [f"k{n}" for n in range(6)]
ASK_MS = 200


class Lossy(LabelledProducer):
    """Loses every fifth message before Kafka, which takes it for sent; copies of them arrive."""

    def _produce(self, key, value, headers, timestamp, *more, on_delivery=None, **how):
        sent = on_delivery.args[0] if on_delivery and hasattr(on_delivery, "args") else None
        is_first = isinstance(sent, Sent) and on_delivery.func == self._note_sent
        if is_first and sent.number % 5 == 3:
            sent.in_flight = False
            self._following[key] = sent.number + 1
            return
        super()._produce(key, value, headers, timestamp, *more, on_delivery=on_delivery, **how)


def turn(producer, count):
    """Labels of every channel: 3 in 5 is lost, 5 in 10 is left out, as if it were rolled back."""
    for key in KEYS:
        for _ in range(count):
            label = producer._following.get(key.encode(), 0)
            producer.send(key, b"v%d" % label, label=label + (label % 10 == 5))
    producer.flush()


def judge(bootstrap, prefix, count):
    """All that was sent is delivered once, in order; what was left out is a gap, and asked for."""
    out = read_all(bootstrap, f"{prefix}out")
    for key in KEYS:
        mine = [int(r.header("label")) for r in out if r.key == key.encode()]
        assert mine == [n for n in range(count) if n % 10 != 5], key
    events = [json.loads(r.value) for r in read_all(bootstrap, f"{prefix}events")]
    gaps = [(e["channel"], e["from"], e["to"], e["reason"]) for e in events if e["event"] == "gap"]
    holes = [(key, n, n + 1, "not-coming") for key in KEYS for n in range(5, count, 10)]
    assert sorted(gaps) == sorted(holes)
    answers = [e for e in events if e["event"].startswith("command-")]
    assert {e["event"] for e in answers} == {"command-done"}
    assert sum(e["given_up"] for e in answers) == len(gaps)
    rejects = {r.header("reject-reason") for r in read_all(bootstrap, f"{prefix}rejects")}
    assert rejects <= {b"duplicate"}, "a copy that was asked for twice"
    asked = [json.loads(r.value) for r in read_all(bootstrap, f"{prefix}wanted")]
    tries = {}
    for each in asked:
        for label in range(each["from"], each["to"]):
            tries.setdefault((each["channel"], label), []).append(each["try"])
    lost = {(key, n) for key in KEYS for n in range(count) if n % 5 == 3 or n % 10 == 5}
    assert tries.keys() == lost, "just what was missing"
    assert all(each == [*range(1, len(each) + 1)] for each in tries.values()), "once for each try"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_what_is_missing_is_asked_for_through_kills(broker, topic_prefix, tmp_path):
    prefix, where = topic_prefix, {"bootstrap.servers": broker.bootstrap}
    create_topics(broker.bootstrap, {f"{prefix}in": 2})
    topics = {**channel_topics(prefix), "wanted": f"{prefix}wanted"}
    gap = {"policy": "wait", "ask_after": f"{ASK_MS} ms"}
    config = write_config(tmp_path, broker.bootstrap, {"p": {**topics, "gap": gap}})
    rng = random.Random(3)
    with Lossy(where, topics["input"], epoch=0, keep=1000) as producer:
        for _ in range(2):
            with Service(config) as service:
                for kill in (kill_workers, Service.kill):
                    turn(producer, 15)
                    wait_at_random(service, rng, 2)
                    kill(service)
        with Service(config) as service:
            turn(producer, 30)
            count = producer._following[KEYS[0].encode()]
            assert count % 10 not in (4, 6), "the last one is there"
            complete = len(KEYS) * sum(n % 10 != 5 for n in range(count))
            service.until(lambda: status(config)["p"]["delivered"] == complete)
            assert service.stop() == 0
    judge(broker.bootstrap, prefix, count)
    counted = status(config)["p"]
    assert counted["held"] == 0
    assert counted["answered"] == len(KEYS) * sum(n % 5 == 3 or n % 10 == 5 for n in range(count))
    assert verify(config)[0] == 0
