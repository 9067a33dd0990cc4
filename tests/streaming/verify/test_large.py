"""What judging many records takes: `SEQUENCER_VERIFIED=10000000` for as many, inputs and outputs."""

import os
import subprocess
import sys

import pytest

COUNT = int(os.environ.get("SEQUENCER_VERIFIED", "2_000_000"))
CHANNELS = 10_000
MEMORY_MB_MAX = 1_500
"""Python, its modules, and one part."""
JUDGED = """
import resource, sys, time
from sequencer.labels import LinearLabels
from streaming.verify.channel import ChannelSettings
from streaming.verify.channel_parts import judge_in_parts, parts_for
from tests.streaming.verify.places import PARTITIONS
from tests.streaming.verify.test_channel_parts import in_order

count, channels = int(sys.argv[1]), int(sys.argv[2])
settings = ChannelSettings("p", LinearLabels(), 1000, output_partitions=PARTITIONS)
feed = in_order(channels, count // 2 // channels)
began = time.monotonic()
say = lambda *said: print(*said, file=sys.stderr, flush=True)
verdict, _ = judge_in_parts(settings, feed, parts_for(count), progress=say)
print(int(verdict.good), verdict.looked_at["inputs"] + verdict.looked_at["deliveries"])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
say(f"{time.monotonic() - began:.0f} s")
"""


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_memory_is_bounded_however_many_records_there_are():
    arguments = [sys.executable, "-c", JUDGED, str(COUNT), str(CHANNELS)]
    done = subprocess.run(arguments, check=True, text=True, stdout=subprocess.PIPE)
    good, looked_at, memory_mb = map(int, done.stdout.split())
    print(f"{looked_at:,} records, {memory_mb:,} MB")
    assert good
    assert looked_at == COUNT // 2 // CHANNELS * CHANNELS * 2
    assert memory_mb < MEMORY_MB_MAX
