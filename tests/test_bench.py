"""What the benchmarks reckon; the measuring itself is `make bench`."""

import importlib
import json
import os
import shutil
import statistics
import sys
import tomllib
from pathlib import Path

import pytest

from streaming.config import load_config


@pytest.fixture
def bench(monkeypatch):
    """The scripts as modules."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "bench"))
    yield importlib.import_module
    named = (
        "harness",
        "groups",
        "multicast",
        "channels",
        "compare",
        "rivals",
        "peers",
        "peers.check",
        "once",
        "values",
        "console",
        "browsing",
        "process_tree",
        "service",
    )
    for name in named:
        sys.modules.pop(name, None)


class Watch:
    """CPU that grows by a second of a core in a second."""

    memory = {"all": 100.0}  # noqa: RUF012

    def spent(self, begin_ms, end_ms):
        return {"jvm": (end_ms - begin_ms) / 1000, "broker": 0.0}


def test_rates_are_of_the_second_half(bench):
    batches = [
        (9, ms, {}, done, 0, at)
        for ms, done, at in ((900, 10, 0), (500, 20, 900), (100, 50, 1400), (100, 100, 1500))
    ]
    rate, cpu = bench("harness").warm(batches, Watch())
    assert rate == 80 / 0.2
    assert cpu == pytest.approx(0.2 / 80 * 1e6)


def test_rates_after_the_first_quarter(bench):
    batches = [
        (25, ms, {}, done, done, at)
        for ms, done, at in ((900, 20, 0), (500, 40, 900), (100, 60, 1400), (100, 100, 1500))
    ]
    found = bench("harness").rates(batches, Watch())
    assert found["read"] == 75 / 0.7
    assert found["written"] == 80 / 0.7
    assert found["cpu_us"]["jvm"] == pytest.approx(0.7 / 75 * 1e6)


def test_ratios_are_of_the_same_run(bench):
    """A machine that became twice as fast between two runs changes no ratio."""
    ratio = bench("channels").of_the_other
    assert ratio([50, 100, 120], [100, 200, 200]) == "0.50 (0.50 to 0.60)"
    assert ratio([1.0], None) == ""


def test_trips_of_groups(bench):
    apart = {"G0": ["a"], "G1": ["b"]}
    assert max(bench("groups").hops(apart, 4)) <= 1
    shared = {"G0": ["a", "b", "c"], "G1": ["b", "c", "d"], "G2": ["c", "d", "a"]}
    found = bench("groups").hops(shared, 4)
    assert len(found) == 9
    assert 0 <= statistics.median(found) <= max(found) <= 3


def test_multicasts_name_distinct_peers(bench):
    import numpy as np

    ((name, value),) = bench("multicast").receivers(np.random.default_rng(1), 50)
    assert name == "to"
    assert len(set(value.split(b","))) == 50


def delivered(bench, channels):
    """Deliveries of channels with these labels, in one partition each, one after another."""
    import numpy as np

    rows = [
        (channel, label, label, channel, offset)
        for channel, labels in enumerate(channels)
        for offset, label in enumerate(labels)
    ]
    return bench("peers.check").Deliveries(*np.array(rows).T)


@pytest.mark.parametrize(
    ("second", "fault"),
    [
        ([0, 1, 2, 3], []),
        ([0, 2, 1, 3], ["after a higher label: label 1 of channel 1, at partition 1, offset 2"]),
        ([0, 1, 3], ["lost: label 2 of channel 1, and 0 more"]),
        ([0, 1, 2], ["lost: label 3 of channel 1, and 0 more"]),
        ([0, 1, 1, 2, 3], ["more than once: label 1 of channel 1, at partition 1, offset 1"]),
        ([0, 1, 2, 3, 4], ["nobody sent: label 4 of channel 1, at partition 1, offset 4"]),
    ],
)
def test_the_checker_of_peers_finds_what_is_wrong(bench, second, fault):
    deliveries = delivered(bench, [[0, 1, 2, 3], second])
    assert list(bench("peers.check").faults(deliveries, 2, 4)) == fault


def test_the_checker_of_peers_looks_at_numbers_and_partitions(bench):
    right = delivered(bench, [[0, 1, 2]])
    judge = bench("peers.check").faults
    (fault,) = judge(right._replace(sequence=right.sequence + 1), 1, 3)
    assert fault == "wrong sequence: label 0 of channel 0, at partition 0, offset 0"
    (fault,) = judge(right._replace(partition=right.offset), 1, 3)
    assert fault.startswith("in a second partition: label 1 of channel 0")


@pytest.mark.parametrize(("tools", "missing"), [([], "no java"), (["java"], "no mvn")])
def test_without_java_or_maven_nothing_of_peers_is_measured(
    bench, tmp_path, monkeypatch, tools, missing
):
    for tool in tools:
        (tmp_path / tool).symlink_to(shutil.which(tool))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match=missing) as ended:
        bench("compare").build()
    assert "--only copy exactly-once at-least-once dictionaries" in str(ended.value)


def test_each_run_of_the_peers_begins_with_another_one(bench):
    turns = [bench("compare").in_turn("abcdef", run) for run in range(4)]
    assert ["".join(turn) for turn in turns] == ["abcdef", "cdefab", "efabcd", "abcdef"]


def test_ours_is_the_service_with_what_it_does_by_itself(bench, tmp_path):
    places = ("127.0.0.1:1", "in", "out")
    words = bench("rivals").command("exactly-once", None, places, 7, str(tmp_path))
    assert words[2:5] == ["streaming.cli", "run", "--once"]
    config = load_config(Path(words[-1]))
    settings = config.pipelines["bench"]
    assert (settings.input, settings.output, settings.rejects) == (("in",), "out", "out.rejects")
    assert config.service.delivery == "exactly-once"
    given = tomllib.loads(Path(words[-1]).read_text())
    assert set(given["service"]) == {"name", "checkpoint", "delivery"}
    assert "spark" not in given
    endless = bench("rivals").command("exactly-once", None, places, 10**12, str(tmp_path))
    assert "--once" not in endless


def test_figures_of_peers_are_of_what_is_readable(bench):
    turns = [(1000, 0), (2000, 10), (3000, 30), (4000, 60), (5000, 90), (9000, 100)]
    found = bench("compare").figures(turns, 100, 500, Watch())
    assert found["records_per_second"] == pytest.approx(60 / 2)
    assert (found["first_output_s"], found["all_s"]) == (1.5, 8.5)
    assert found["cpu_us"] == pytest.approx(2 / 60 * 1e6)


def test_rates_of_a_service_are_those_of_its_batches(bench, tmp_path):
    once = bench("once")
    for batch, (read, ended) in enumerate([(10, 100), (30, 104), (60, 109), (100, 119)]):
        for log in ("offsets", "commits"):
            (tmp_path / log).mkdir(exist_ok=True)
        offsets = {"p.in": {"0": read - 4, "1": 4}, "#p.in": {"epochs": {"0": 7}}, "q": {"0": 9}}
        lines = ["v1", "{}", json.dumps(offsets), "-"]
        (tmp_path / "offsets" / str(batch)).write_text("\n".join(lines))
        commit = tmp_path / "commits" / str(batch)
        commit.touch()
        os.utime(commit, (ended, ended))
    assert once.rate_of(tmp_path, "p.in") == 70 / 15
    os.utime(tmp_path / "offsets" / "0", (90, 90))
    for batch in (1, 2, 3):
        (tmp_path / "commits" / str(batch)).unlink()
    assert once.rate_of(tmp_path, "p.in") == 10 / 10, "one batch"
    found = {"header": [(4.0, 10.0), (5.0, 10.0)], "value": [(2.0, 11.0), (3.0, 12.0)]}
    lines = list(once.table({"t": found}))
    assert lines[-1] == "| t | value | 2 | 0.55 (0.50, 0.60) | 12 | 1.15 (1.10, 1.20) |"


def test_what_a_console_costs_is_a_mean_of_pairs_and_how_sure_it_is(bench):
    paired = bench("console").paired
    assert paired([1, 2, 4], [1.1, 2.2, 4.4]) == pytest.approx((1.1, 0))
    mean, half = paired([1, 1], [0.9, 1.1])
    assert mean == pytest.approx(1)
    assert half == pytest.approx(12.706 * 0.1, rel=1e-3), "two pairs say little"
