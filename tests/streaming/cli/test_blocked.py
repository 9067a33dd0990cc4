"""`sequencer status --blocked` on what a service left in its checkpoint."""

import io
import json
import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from sequencer.channels import Arrivals, Rules, ShardState, step
from sequencer.labels import LinearLabels
from streaming.arrow.totals import Totals
from streaming.cli import blocked
from streaming.cli.tables import terminal
from streaming.config import load_config
from streaming.disciplines import discipline
from streaming.disciplines.channels.waiting import waiting_report
from streaming.service.checkpoint import Checkpoint

SHARDS = 4
CHANNELS = 1_000


def shard(number):
    """A shard's totals and what it tells: one channel in ten waits for label 1."""
    keys = [b"s%d-%04d" % (number, n) for n in range(CHANNELS)]
    rows = [(key, b"0") for key in keys] + [(key, b"5") for key in keys[::10]]
    columns = [pa.array(column, pa.binary()) for column in zip(*rows, strict=True)]
    epochs, fin = pa.nulls(len(rows), pa.binary()), np.zeros(len(rows), dtype=bool)
    before = ShardState.empty()
    after = step(
        before, Arrivals(*columns, epochs, fin), 1000 + number, Rules(LinearLabels())
    ).state
    totals = Totals(held=len(after.held), blocked=CHANNELS // 10, channels=CHANNELS)
    return totals, waiting_report(before, after)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(
        f'[service]\ncheckpoint = "{tmp_path / "checkpoints"}"\n'
        '[pipelines.p]\ndiscipline = "channel"\n[pipelines.quiet]\ndiscipline = "channel"\n'
    )
    found = {number: shard(number) for number in range(SHARDS)}
    checkpoint = Checkpoint(str(tmp_path / "checkpoints"), "p")
    shards = {str(number): asdict(totals) for number, (totals, _) in found.items()}
    checkpoint.write_status(
        {"shards": shards, "batch": 1, "batch_ms": 1, "at": "2026-11-24T03:00:00.000+00:00"}
    )
    checkpoint.write_waiting({number: text for number, (_, text) in found.items()})
    return path


def status(config, *arguments):
    called = subprocess.run(
        [sys.executable, "-m", "streaming.cli", "status", str(config), "--blocked", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return called.stdout


def test_the_longest_come_first_and_all_of_them_for_programs(config):
    found = json.loads(status(config, "--json"))["pipelines"]
    assert found["quiet"]["waiting"] == []
    waiting = found["p"]["waiting"]
    assert len(waiting) == SHARDS * CHANNELS // 10
    assert [each["channel"] for each in waiting[:2]] == ["s0-0000", "s0-0010"]
    assert waiting[-1] == {
        "channel": f"s{SHARDS - 1}-0990",
        "epoch": 0,
        "next": 1,
        "since": "1970-01-01T00:00:01.003Z",
        "held": 1,
    }
    assert [each["since"] for each in waiting] == sorted(each["since"] for each in waiting)


def test_the_state_is_read_only_where_batches_did_not_report_enough(monkeypatch, config):
    monkeypatch.setattr(discipline, "LISTED_MAX", 100)
    monkeypatch.setattr(blocked, "_from_state", lambda _, names, most: dict.fromkeys(names, most))
    settings = load_config(config)
    reported = SHARDS * CHANNELS // 10

    def rows(count, most):
        found = blocked.who_waits(settings, {"p": count, "quiet": 0}, most)
        assert found["quiet"] == []
        return found["p"] if isinstance(found["p"], int) else len(found["p"])

    assert rows(reported, 1_000) == reported, "all are known"
    assert rows(reported + 1, 100) == 100, "the longest are known"
    assert rows(reported + 1, 101) == 101, "by the state"
    assert rows(reported + 1, 1_000) == 1_000
    checkpoint = Checkpoint.of(settings, "p")
    cut = {shard: f"{text}{discipline.CUT}70" for shard, text in checkpoint.waiting().items()}
    checkpoint.write_waiting(cut)
    assert rows(reported + 1, 70) == 70, "the longest are known"
    assert rows(reported + 1, 71) == 71, "by the state"


def test_people_get_the_first_and_how_many_more(config):
    out = status(config)
    assert "p: 400 blocked, 400 held" in out
    assert "s0-0490" in out
    assert "s0-0500" not in out
    assert "… and 350 more: --max, or --json for all" in out
    assert "s0-0500" in status(config, "--max", "60")


def test_who_was_asked_how_often_is_shown():
    since = "2026-11-24T03:00:00.000Z"
    row = {"channel": "IBM", "epoch": 0, "next": 41, "since": since, "held": 5}
    rows = [{**row, "asked": 3, "ask_next": since}, {**row, "asked": 8, "ask_next": None}]
    counts = {
        "discipline": "channel",
        "blocked": 2,
        "held": 10,
        "asked": 11,
        "answered": 4,
        "age_seconds": 1.0,
    }
    console = Console(width=200, record=True, file=io.StringIO())
    blocked.list_waiting(console, {"p": {**counts, "waiting": rows}})
    head, columns, *cells = [line.split() for line in console.export_text().splitlines()]
    assert " ".join(head) == "p: 2 blocked, 10 held, 11 asked, 4 answered, 1 s ago"
    assert columns[-3:] == ["asked", "asks", "next"]
    assert [each[7:] for each in cells] == [["3", "2026-11-24T03:00:00Z"], ["8", "not", "again"]]


@pytest.mark.parametrize("name", ["[/x]", "[red]", "[ab]*", ":warning:"])
def test_names_that_look_like_markup_are_shown_as_they_are(capsys, name):
    """A sender that is waited for has a name from outside, and globs have brackets."""
    row = {"channel": "k", "next": name, "since": "2026-11-24T03:00:00.000+00:00", "held": 1}
    figures = {"blocked": 1, "held": 1, "age_seconds": 1.0, "discipline": "channel"}
    blocked.list_waiting(terminal(), {"p": {**figures, "waiting": [{**row, "rule": name}]}})
    assert capsys.readouterr().out.count(name) == 2
