"""What `sequencer bench` draws; the measuring is run by `tests/spark/test_bench_live.py`."""

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from streaming.bench import measuring
from streaming.bench.measuring import Measured
from streaming.cli.bench import picture
from tests.service_helpers import called

FOUND = Measured(1_000, 200.0, 400.0, 5.0, 0.25, 0.5)


def bars(drawn):
    """How long each bar is."""
    root = ET.fromstring(drawn)  # noqa: S314  (our own)
    return [float(each.attrib["width"]) for each in root.iter() if "bar" in each.get("class", "")]


def test_bars_are_in_proportion_and_say_their_figures():
    drawn = picture(FOUND)
    ordered, copied, p50, p99 = bars(drawn)
    assert (copied, p99) == (2 * ordered, 2 * p50)
    shown = re.findall(r">([^<>]+)</(?:\w+:)?text>", drawn)
    assert {"put in order", "200", "400", "250 ms", "500 ms"} <= set(shown)
    assert len(bars(picture(replace(FOUND, p50_seconds=None, p99_seconds=None)))) == 2


def test_nothing_measured_is_a_picture_too():
    assert bars(picture(replace(FOUND, ordered_rate=0.0, copied_rate=0.0)))[:2] == [0, 0]


@pytest.mark.parametrize("as_json", [False, True])
def test_the_table_and_the_picture(tmp_path, monkeypatch, as_json):
    monkeypatch.setattr(measuring, "measure", lambda _wanted, _say: FOUND)
    path = tmp_path / "bench.svg"
    code, out, _ = called("bench", "-o", path, *(["--json"] if as_json else []))
    assert code == 0
    assert path.read_text() == picture(FOUND)
    assert '"ratio": 0.5' in out if as_json else re.search(r"latency, p99 +500 ms", out)


def test_a_picture_that_could_not_be_written_is_said_before_anything_is_measured(tmp_path):
    for path in (tmp_path, tmp_path / "none" / "bench.svg"):
        code, _, err = called("bench", "-o", path)
        assert (code, "Nothing was done" in err) == (2, True), err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bench", "-o", "a" * 300], "cannot be written: File name too long."),
        (["bench", "--bytes", "2000000"], "--bytes"),
        (["demo", "--keep", "a" * 300], "cannot be a folder: File name too long."),
        (["demo", "--flights", "-5"], "--flights"),
        (["demo", "--per-second", "nan"], "--per-second"),
    ],
)
def test_what_cannot_be_is_refused_at_once(words, said):
    code, out, err = called(*words)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err
