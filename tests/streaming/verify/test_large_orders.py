"""What judging many messages of groups and multicasts takes; `SEQUENCER_VERIFIED` for other counts."""

import os
import subprocess
import sys

import pytest

COUNT = int(os.environ.get("SEQUENCER_VERIFIED", "400_000"))
BYTES_MAX = {"group": 230, "multicast": 230}
"""Of a record, input or delivery."""
JUDGED = """
import resource, sys
from streaming.verify import group, multicast
from streaming.verify.accounts import Material, Settings
from streaming.verify.records import Record

kind, many = sys.argv[1], int(sys.argv[2])
peers = (b"A", b"B", b"C")
own_headers = (("group", b"G"),) if kind == "group" else (("to", b"A,B,C"),)

def inputs(count):
    for n in range(count):
        yield Record("in", 0, n, 1_000 + n, b"s%d" % (n % 50), b"%d" % n, own_headers)

def outputs(count):
    for at, peer in enumerate(peers):
        for n in range(count):
            number, sender = b"%d" % n, b"s%d" % (n % 50)
            added = (("from", sender), ("destination", peer), ("timestamp", number))
            if kind == "group":
                added = (("sender", sender), ("group-sequence", number), ("group-version", b"0"))
            headers = (*own_headers, *added, ("sequence", number), ("incarnation", b"17"))
            yield Record("out", 0, 3 * n + at, 1_000 + n, peer, number, headers)

def judged(count):
    given = {"pipeline": "p", "output": "out", "partitions": {"out": 1}}
    material = Material(outputs(count), (), (), (), inputs(count))
    if kind == "multicast":
        return multicast.judge(Settings(**given), material)
    members = frozenset(peer.decode() for peer in peers)
    more = {"groups": {"G": members}, "by_batch": True, "stamps": False}
    return group.judge(group.GroupSettings(**given, **more), material)

judged(1_000)  # what is imported for it
before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
verdict = judged(many // 4)
after_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(verdict.faults[:3], file=sys.stderr)
print(int(verdict.good), verdict.looked_at["deliveries"], (after_kb - before_kb) * 1024 // many)
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["group", "multicast"])
def test_memory_for_a_record(kind):
    arguments = [sys.executable, "-c", JUDGED, kind, str(COUNT)]
    done = subprocess.run(arguments, check=True, text=True, stdout=subprocess.PIPE)
    good, deliveries, each_bytes = map(int, done.stdout.split())
    print(f"{kind}: {each_bytes} bytes a record")
    assert good
    assert deliveries == COUNT // 4 * 3
    assert each_bytes < BYTES_MAX[kind]
