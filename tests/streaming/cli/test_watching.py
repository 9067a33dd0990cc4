"""The line of history below `sequencer status --watch`."""

import time
from dataclasses import asdict
from importlib import import_module
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from streaming.arrow.totals import Totals
from streaming.cli.watching import BLOCKS, COLUMNS, History, bars
from streaming.service.checkpoint import Checkpoint
from tests.service_helpers import called


def look(**pipelines):
    return {name: {"delivered": out, "held": held} for name, (out, held) in pipelines.items()}


def test_rates_and_what_is_held():
    history = History()
    history.note(10.0, look(trades=(100, 0), bus=(5, 0)))
    assert history.lines() == [], "one look has no rate"
    history.note(12.0, look(trades=(100, 4), bus=(5, 0)))
    history.note(14.0, look(trades=(300, 8), bus=(5, 0)))
    assert history.lines() == [
        "trades  out ▁█ 100/s  held ▅█ 8",
        "bus     out ▁▁ 0/s  held ▁▁ 0",
    ]


def test_a_line_has_an_end():
    history = History()
    for at in range(3 * COLUMNS):
        history.note(float(at), look(p=(at, at)))
    (line,) = history.lines()
    assert line.count("█") <= 2 * COLUMNS
    assert len(line) < 2 * COLUMNS + 40


@given(st.lists(st.integers(0, 10**9), min_size=1))
def test_only_nothing_is_empty_and_only_the_highest_is_full(values):
    drawn = bars(values)
    assert len(drawn) == len(values)
    for value, block in zip(values, drawn, strict=True):
        assert (block == BLOCKS[0]) == (value == 0)
        if value == max(values) > 0:
            assert block == BLOCKS[-1]


def test_status_shows_it_while_it_watches_and_ends_with_ctrl_c(tmp_path, monkeypatch):
    path = tmp_path / "c.toml"
    path.write_text(
        f'[service]\ncheckpoint = "{tmp_path}/checkpoints"\n[pipelines.p]\ndiscipline = "channel"\n'
    )
    checkpoint = Checkpoint(f"{tmp_path}/checkpoints", "p")
    looks = [Totals(seen=n, delivered=n - 3, held=3) for n in (13, 113)]
    clock = iter([0.0, 2.0])

    def write(_seconds=0):
        if not looks:
            raise KeyboardInterrupt
        shards = {"0": asdict(looks.pop(0))}
        told = {"shards": shards, "batch": 1, "batch_ms": 1, "at": "2026-11-24T03:00:00+00:00"}
        checkpoint.write_status(told)

    write()
    own = SimpleNamespace(sleep=write, monotonic=lambda: next(clock), time=time.time)
    monkeypatch.setattr(import_module("streaming.cli.status"), "time", own)
    code, out, _ = called("status", path, "--watch")
    assert code == 130
    assert out.splitlines()[-1] == "p  out █ 50/s  held █ 3"
