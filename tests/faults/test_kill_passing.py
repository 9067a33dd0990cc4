"""Kill -9 of a service that labels, lets what has no label pass, and begins in mid-stream.

`label` with a `channel` pipeline behind it, `unlabelled = "pass"`, `labels.start = "first-seen"`.
"""

import json
import os
import random
import signal
from contextlib import suppress

import pytest

from tests.faults.kills import wait_at_random
from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.processes import python_workers
from tests.service_helpers import Service, channel_topics, status, verify, write_config

KEYS = [b"k%d" % n for n in range(8)]
PER_TURN = 40
START = 1_000
"""Above the labels before which channels are joined; each at another one."""


class World:
    """Four pipelines of one service, and what is sent to them turn by turn."""

    def __init__(self, broker, prefix, folder):
        self.bootstrap, self.rng, self.turns = broker.bootstrap, random.Random(5), 0
        names = ("proxy", "behind", "mixed", "joined")
        self.topics = {name: channel_topics(f"{prefix}{name}.") for name in names}
        self.topics["behind"]["input"] = self.topics["proxy"]["output"]
        inputs = [self.topics[name]["input"] for name in ("proxy", "mixed", "joined")]
        create_topics(self.bootstrap, dict.fromkeys(inputs, 2))
        own = {
            "proxy": {"discipline": "label"},
            "behind": {},
            "mixed": {"unlabelled": "pass"},
            "joined": {"labels": {"kind": "linear", "start": "first-seen", "settle": "3 s"}},
        }
        made = {name: {**own[name], **self.topics[name]} for name in names}
        self.config = write_config(folder, self.bootstrap, made)
        self.sent = {name: {key: [] for key in KEYS} for name in ("proxy", "mixed")}

    def turn(self):
        """Each channel: labels of this turn mixed up, others' records without any between them."""
        first = self.turns * PER_TURN
        self.turns += 1
        labels = [*range(first, first + PER_TURN)]
        for name in ("proxy", "mixed", "joined"):
            records = []
            for at, key in enumerate(KEYS):
                self.rng.shuffle(labels)
                for n in labels:
                    label = n + START * (at + 1) if name == "joined" else n
                    headers = [] if name == "proxy" else [("label", b"%d" % label)]
                    records.append(Record(key, b"%d" % label, headers))
                    if name == "mixed" and n % 4 == 0:
                        records.append(Record(key, b"plain %d" % n, []))
            for record in records:
                if name in self.sent:
                    self.sent[name][record.key].append(record.value)
            produce(self.bootstrap, self.topics[name]["input"], records)

    def is_done(self):
        """Whether all that was sent is delivered."""
        count = self.turns * PER_TURN * len(KEYS)
        wanted = {"proxy": count, "behind": count, "mixed": count * 5 // 4, "joined": count}
        found = status(self.config)
        return {name: each["delivered"] for name, each in found.items()} == wanted

    def read(self, name):
        """What each channel got, in order, with numbers without a hole under one incarnation."""
        got = {key: [] for key in KEYS}
        for record in read_all(self.bootstrap, self.topics[name]["output"]):
            got[record.key].append(record)
        for records in got.values():
            assert len({each.header("incarnation") for each in records}) == 1
            numbers = [int(each.header("sequence")) for each in records]
            assert numbers == [*range(len(records))]
        return got

    def judge(self):
        """From the topics: each record once, where it belongs."""
        for key, records in self.read("proxy").items():
            assert [each.value for each in records] == self.sent["proxy"][key]
            labels = [int(each.header("label")) for each in records]
            assert labels == [*range(len(records))], "by order of arrival"
            assert {each.header("epoch") for each in records} == {records[0].header("incarnation")}
        for key, records in self.read("behind").items():
            assert [each.value for each in records] == self.sent["proxy"][key]
        for key, records in self.read("mixed").items():
            labels = [int(n) for each in records if (n := each.header("label")) is not None]
            assert labels == [*range(self.turns * PER_TURN)]
            plain = [each.value for each in records if each.header("label") is None]
            assert plain == [each for each in self.sent["mixed"][key] if each.startswith(b"plain")]
        for at, key in enumerate(KEYS):
            records = self.read("joined")[key]
            first = START * (at + 1)
            labels = [int(each.value) for each in records]
            assert labels == [*range(first, first + self.turns * PER_TURN)]
        events = read_all(self.bootstrap, self.topics["joined"]["events"])
        started = [json.loads(each.value) for each in events]
        assert sorted(each["channel"].encode() for each in started) == KEYS
        assert {each["event"] for each in started} == {"started"}
        for name, topics in self.topics.items():
            assert read_all(self.bootstrap, topics["rejects"]) == [], name
        figures = status(self.config)["mixed"]
        assert figures["passed"] == self.turns * PER_TURN * len(KEYS) // 4


def kill_workers(service):
    """kill -9 of those that pack, step and write; the service goes on."""
    for worker in python_workers(service.process.pid):
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_what_has_no_label_yet_through_kills(broker, topic_prefix, tmp_path):
    world = World(broker, topic_prefix, tmp_path)
    world.turn()  # all of it lies there: the lowest label of each channel is its start
    with Service(world.config) as service:
        wait_at_random(service, world.rng, 1)
        service.kill()  # while channels settle
    for kill in (kill_workers, Service.kill):
        with Service(world.config) as service:
            world.turn()
            wait_at_random(service, world.rng, 2)
            kill(service)
            if kill is kill_workers:
                world.turn()
                service.until(world.is_done)
                service.kill()
    with Service(world.config) as service:
        world.turn()
        service.until(world.is_done)
        assert service.stop() == 0, service.said()
    world.judge()
    code, said = verify(world.config)
    assert code == 0, said
