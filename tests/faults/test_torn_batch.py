"""A stage that fails in the middle of a batch: what it had not given yet is not lost."""

import collections
import uuid

import pytest

from tests.faults import torn
from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import run_once, verify, write_config

pytestmark = pytest.mark.timeout(1800)
TORN = "tests.faults.torn:operators"
KEYS = [b"k%d" % n for n in range(12)]
PER_KEY = 3
GROUPS = {"G0": ["A", "B", "C"], "G1": ["B", "C", "D"], "G2": ["E", "F", "G"]}
PEERS = [b"p%d" % n for n in range(10)]
SHORT = {
    "channel": {"discipline": "channel"},
    "group": {"discipline": "group", "groups": GROUPS},
    "multicast": {"discipline": "multicast"},
}
LONG = {
    **SHORT,
    "network": {"discipline": "group", "groups": GROUPS, "sequencing": "network"},
    "clock": {"discipline": "multicast", "order": "clock"},
    "counter": {"discipline": "multicast", "order": "counter"},
}


class Everything:
    """A pipeline of each discipline with a batch of input, and what must come of it."""

    def __init__(self, broker, folder, pipelines, **service):
        self.bootstrap, self.pipelines = broker.bootstrap, pipelines
        self.prefix = f"torn-{uuid.uuid4().hex[:8]}."
        roles = ("rejects", "events", "commands")
        made = {
            name: {
                "input": self.topic(name, "in"),
                "output": self.topic(name, "out"),
                **{role: self.topic(name, role) for role in roles},
                **each,
            }
            for name, each in pipelines.items()
        }
        create_topics(self.bootstrap, {self.topic(name, "in"): 1 for name in pipelines})
        self.config = write_config(folder, self.bootstrap, made, **service)
        self.expected = {}
        for name, each in pipelines.items():
            records, self.expected[name] = INPUTS[each["discipline"]]()
            produce(self.bootstrap, self.topic(name, "in"), records)

    def topic(self, name, role):
        return f"{self.prefix}{name}.{role}"

    def judge(self, *, once=True):
        """Each delivery is there, and, with ``once``, once; sequences are without a hole."""
        code, said = verify(self.config)
        assert code == 0, said
        for name, expected in self.expected.items():
            found = collections.defaultdict(dict)
            records = read_all(self.bootstrap, self.topic(name, "out"))
            for record in records:
                place = (int(record.header("incarnation")), int(record.header("sequence")))
                assert found[record.key].setdefault(place, record.value) == record.value, name
            for key, by_place in found.items():
                assert [number for _, number in sorted(by_place)] == list(range(len(by_place))), key
            delivered = {key: sorted(each.values()) for key, each in found.items()}
            assert delivered == expected, name
            assert not once or len(records) == sum(map(len, expected.values())), name


def channel_input():
    """The labels of each channel, backwards."""
    records = [
        Record(key, b"%s-%d" % (key, n), [("label", b"%d" % n)])
        for n in reversed(range(PER_KEY))
        for key in KEYS
    ]
    return records, {key: [b"%s-%d" % (key, n) for n in range(PER_KEY)] for key in KEYS}


def group_input():
    """The last is rejected: a row of its own."""
    records = [
        Record(b"s%d" % (n % 2), b"m%02d" % n, [("group", b"G%d" % (n % 3))]) for n in range(12)
    ]
    expected = collections.defaultdict(list)
    for record in records:
        for member in GROUPS[record.header("group").decode()]:
            expected[member.encode()].append(record.value)
    return [*records, Record(b"s0", b"bad")], dict(expected)


def multicast_input():
    """The last is rejected: a row of its own."""
    records = [
        Record(PEERS[n], b"m%02d" % n, [("to", b",".join(PEERS[n % 3 :: 2]))]) for n in range(6)
    ]
    expected = collections.defaultdict(list)
    for record in records:
        for peer in record.header("to").split(b","):
            expected[peer].append(record.value)
    return [*records, Record(PEERS[0], b"bad", [("to", b"")])], dict(expected)


INPUTS = {"channel": channel_input, "group": group_input, "multicast": multicast_input}


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_an_operator_ends_between_any_two_of_its_rows(broker, tmp_path, delivery):
    """By an exception, or by a kill -9 of its worker."""
    every = Everything(broker, tmp_path, SHORT, delivery=delivery, shards=2, state_partitions=1)
    run_once(every.config, within=TORN, environment=torn.environment(tmp_path / "moments"))
    moments = torn.moments(tmp_path / "moments")
    assert moments == {"channel-0": 3, "group-0": 4, "multicast-0": 4}
    every.judge(once=delivery == "exactly-once")
