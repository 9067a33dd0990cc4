"""Kill -9 of a service that labels, lets what has no label pass, and begins in mid-stream.

`label` with a `channel` pipeline behind it, `unlabelled = "pass"`, `labels.start = "first-seen"`;
besides labels of text without an end, and commands among the messages, with notices of what came of
them.
"""

import json
import random
from itertools import count, islice, product
from string import ascii_lowercase

import pytest

from tests.faults.kills import kill_workers, wait_at_random
from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import Service, channel_topics, status, verify, write_config

KEYS = [b"k%d" % n for n in range(8)]
PER_TURN = 40
START = 1_000
"""Above the labels before which channels are joined; each at another one."""
ENDLESS, ENDLESS_PER_TURN = b"endless", 3_000
"""A channel with so many labels of text in each turn that a state names several blocks of them."""
GIVEN_UP = 7
"""The label of each turn that does not come, and that a command in the input gives up."""


def names():
    """All names, the shorter ones first."""
    for length in count(1):
        for letters in product(ascii_lowercase, repeat=length):
            yield "".join(letters).encode()


class World:
    """Six pipelines of one service, and what is sent to them turn by turn."""

    def __init__(self, broker, prefix, folder):
        self.bootstrap, self.rng, self.turns = broker.bootstrap, random.Random(5), 0
        names = ("proxy", "behind", "mixed", "joined", "changed", "named")
        self.topics = {name: channel_topics(f"{prefix}{name}.") for name in names}
        self.topics["behind"]["input"] = self.topics["proxy"]["output"]
        inputs = [self.topics[name]["input"] for name in names if name != "behind"]
        create_topics(self.bootstrap, dict.fromkeys(inputs, 2))
        own = {
            "proxy": {"discipline": "label"},
            "behind": {},
            "mixed": {"unlabelled": "pass"},
            "joined": {"labels": {"kind": "linear", "start": "first-seen", "settle": "3 s"}},
            "changed": {"notices": True, "input_commands": ["skip"]},
            "named": {
                "labels": {
                    "kind": "custom",
                    "initial": "a",
                    "next": "tests.spark.letters:next_name",
                }
            },
        }
        made = {
            name: {**own[name], **self.topics[name], "progress": f"{prefix}{name}.progress"}
            for name in names
        }
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
        produce(self.bootstrap, self.topics["changed"]["input"], self.changed(first))
        produce(self.bootstrap, self.topics["named"]["input"], self.named())

    def changed(self, first):
        """The labels of a turn without one, which a command behind them gives up."""
        labels = [n for n in range(first, first + PER_TURN) if n != first + GIVEN_UP]
        for key in KEYS:
            self.rng.shuffle(labels)
            yield from (Record(key, b"%d" % n, [("label", b"%d" % n)]) for n in labels)
            yield Record(key, b"{}", [("op", b"skip")])

    def named(self):
        """The next names, mixed up."""
        first = (self.turns - 1) * ENDLESS_PER_TURN
        labels = [*islice(names(), first, first + ENDLESS_PER_TURN)]
        at = {label: n + self.rng.uniform(0, 50) for n, label in enumerate(labels)}
        for label in sorted(labels, key=at.__getitem__):
            yield Record(ENDLESS, label, [("label", label)])

    def is_done(self):
        """Whether all that was sent is delivered."""
        messages = self.turns * PER_TURN * len(KEYS)
        wanted = {
            "proxy": messages,
            "behind": messages,
            "mixed": messages * 5 // 4,
            "joined": messages,
        }
        wanted |= {"changed": messages - self.turns * len(KEYS)}
        wanted |= {"named": self.turns * ENDLESS_PER_TURN}
        found = status(self.config)
        return {name: each["delivered"] for name, each in found.items()} == wanted

    def read(self, name):
        """What each channel got, in order, with numbers without a hole under one incarnation."""
        got = {key: [] for key in ([ENDLESS] if name == "named" else KEYS)}
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
        figures = status(self.config)
        assert figures["mixed"]["passed"] == self.turns * PER_TURN * len(KEYS) // 4
        self.judge_changed(figures["changed"])
        (records,) = self.read("named").values()
        assert [each.value for each in records] == [*islice(names(), len(records))]

    def judge_changed(self, figures):
        """Each command gave one label up, and its notice stands in the place of that label."""
        for records in self.read("changed").values():
            streamed = [each.value or json.loads(each.header("detail")) for each in records]
            for n, each in enumerate(streamed):
                if n % PER_TURN != GIVEN_UP:
                    assert each == b"%d" % n
                    continue
                assert (each["event"], each["from"], each["to"]) == ("gap", n, n + 1)
                assert each["reason"] == "operator"
            assert len(streamed) == self.turns * PER_TURN
        commands = self.turns * len(KEYS)
        assert (figures["commands"], figures["notices"]) == (commands, commands)


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
