"""A pipeline of each discipline with a batch of input, for tests that end what works on it."""

import collections
import uuid

from tests.faults import torn
from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import run_once, verify, write_config

KEYS = [b"k%d" % n for n in range(12)]
PER_KEY = 3
GROUPS = {"G0": ["A", "B", "C"], "G1": ["B", "C", "D"], "G2": ["E", "F", "G"]}
PEERS = [b"p%d" % n for n in range(10)]
TRANSIT = {"transit": "transit"}
SHORT = {
    "channel": {"discipline": "channel"},
    "group": {"discipline": "group", "groups": GROUPS},
    "multicast": {"discipline": "multicast"},
}
LONG = {
    **SHORT,
    "network": {"discipline": "group", "groups": GROUPS, "sequencing": "network", **TRANSIT},
    "clock": {"discipline": "multicast", "order": "clock", **TRANSIT},
    "counter": {"discipline": "multicast", "order": "counter", **TRANSIT},
}


class Everything:
    """A pipeline of each discipline with a batch of input, and what must come of it."""

    def __init__(self, broker, folder, pipelines, **service):
        self.bootstrap, self.pipelines = broker.bootstrap, pipelines
        self.prefix = f"torn-{uuid.uuid4().hex[:8]}."
        roles = {role: role for role in ("rejects", "events", "commands")}
        roles |= {"input": "in", "output": "out"}
        made = {
            name: {
                **each,
                **{
                    role: self.topic(name, last)
                    for role, last in (roles | TRANSIT if "transit" in each else roles).items()
                },
            }
            for name, each in pipelines.items()
        }
        create_topics(self.bootstrap, {self.topic(name, "in"): 1 for name in pipelines})
        self.config = write_config(folder, self.bootstrap, made, **service)
        self.once = service.get("delivery") != "at-least-once"
        self.inputs, self.expected = {}, {}
        for name, each in pipelines.items():
            self.inputs[name], self.expected[name] = INPUTS[each["discipline"]]()

    def send(self):
        """The input of all pipelines."""
        for name, records in self.inputs.items():
            self.produce(records, name)

    def produce(self, records, name="channel"):
        """Further input of a pipeline."""
        produce(self.bootstrap, self.topic(name, "in"), records)

    def topic(self, name, role):
        return f"{self.prefix}{name}.{role}"

    def judge(self):
        """Each delivery is there, and, exactly-once, once; sequences are without a hole."""
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
            assert not self.once or len(records) == sum(map(len, expected.values())), name


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


def ends_everywhere(every, within="tests.faults.torn:operators", **environment):
    """Run it while its operators end at each of their moments, and judge."""
    every.send()
    folder = every.config.parent / "moments"
    how = {"environment": torn.environment(folder) | environment, "within": within}
    run_once(every.config, **how)
    moments = torn.moments(folder)
    assert {task.rpartition("-")[0] for task in moments} == set(every.pipelines)
    assert min(moments.values()) > 1, moments
    every.judge()
