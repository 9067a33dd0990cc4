"""What judging many messages of groups and multicasts takes; `SEQUENCER_VERIFIED` for other counts."""

import os
import subprocess
import sys
import time

import pytest

COUNT = int(os.environ.get("SEQUENCER_VERIFIED", "1_600_000"))
GROWTH_MB_MAX = 200
"""Of the peak, pages of files included; however many records there are."""
JUDGED = """
import resource, sys
from streaming.verify import group, multicast
from streaming.verify.accounts import Material, Settings
from streaming.verify.records import Record

kind, many = sys.argv[1], int(sys.argv[2])
peers = (b"A", b"B", b"C")

def own_headers(n):
    return (("group", b"GH"[n % 2:][:1]),) if kind == "group" else (("to", b"A,B,C"),)

def inputs(count):
    for n in range(count):
        yield Record("in", 0, n, 1_000 + n, b"s%d" % (n % 50), b"%d" % n, own_headers(n))

def outputs(count):
    for at, peer in enumerate(peers):
        for n in range(count):
            number, sender = b"%d" % n, b"s%d" % (n % 50)
            added = (("from", sender), ("destination", peer), ("timestamp", number))
            if kind == "group":
                added = (("sender", sender), ("group-sequence", b"%d" % (n // 2)))
                stamps = b'[["G", "H", %d]]' % n
                added = (*added, ("group-version", b"0"), ("stamps", stamps))
            headers = (*own_headers(n), *added, ("sequence", number), ("incarnation", b"17"))
            yield Record("out", 0, 3 * n + at, 1_000 + n, peer, number, headers)

def judged(count):
    given = {"pipeline": "p", "output": "out", "partitions": {"out": 1}}
    material = Material(outputs(count), (), (), (), inputs(count))
    if kind == "multicast":
        return multicast.judge(Settings(**given), material)
    members = frozenset(peer.decode() for peer in peers)
    more = {"groups": {"G": members, "H": members}, "by_batch": True}
    return group.judge(group.GroupSettings(**given, **more), material)

judged(1_000)  # what is imported for it
before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
verdict = judged(many // 4)
after_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(verdict.faults[:3], file=sys.stderr)
print(int(verdict.good), verdict.looked_at["deliveries"], after_kb // 1024, before_kb // 1024)
"""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["group", "multicast"])
def test_memory_is_bounded_however_many_records_there_are(kind):
    began = time.monotonic()
    arguments = [sys.executable, "-c", JUDGED, kind, str(COUNT)]
    done = subprocess.run(arguments, check=True, text=True, stdout=subprocess.PIPE)
    good, deliveries, peak_mb, before_mb = map(int, done.stdout.split())
    seconds = time.monotonic() - began
    print(f"{kind}: {deliveries:,} deliveries, {peak_mb} MB, before {before_mb}; {seconds:.0f} s")
    assert good
    assert deliveries == COUNT // 4 * 3
    assert peak_mb - before_mb < GROWTH_MB_MAX
