"""`sequencer bench` whole, small."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]


def test_the_bench_measures_and_leaves_nothing(broker, tmp_path):
    environment = {
        **os.environ,
        "SEQUENCER_BOOTSTRAP_SERVERS": broker.bootstrap,
        "TMPDIR": str(tmp_path),
    }
    words = ("bench", "--messages", "20000", "--channels", "100", "--seconds", "1", "--json")
    done = subprocess.run(
        [sys.executable, "-m", "streaming.cli", *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["messages"] == 20_000
    assert all(value > 0 for value in found.values())
    assert found["p50_seconds"] <= found["p99_seconds"]
    assert not list(tmp_path.glob("sequencer-bench-*"))
