"""The page about a run of the demo."""

import re

import pytest

from streaming.config import parse_config
from streaming.demo.groups import groups_drawn
from streaming.demo.page import Course, write
from streaming.demo.shop import Demo
from streaming.errors import ConfigError


def test_the_page_needs_nothing_from_outside_and_shows_text_as_text(tmp_path):
    course = Course()
    for second, count in enumerate((0, 10, 40)):
        course.note(float(second), **{"in": count, "delivered": count // 2, "held": 3})
    assert course.rates("in") == [10.0, 30.0]
    path = tmp_path / "demo.html"
    bad = "<script>x</script>"
    write(path, bad, {bad: 1_000}, course, [(bad, "<svg/>")])
    text = path.read_text()
    assert "<script" not in text
    assert text.count("&lt;script&gt;") == 4
    assert "1,000" in text
    assert "at most 30" in text
    assert not re.search(r"(src|href)=|@import|url\(", text)


def test_a_run_that_never_began_has_a_page(tmp_path):
    write(tmp_path / "demo.html", "t", {}, Course(), [])
    assert "at most 0" in (tmp_path / "demo.html").read_text()


@pytest.mark.parametrize("sequencing", ["batch", "network"])
def test_the_picture_of_the_groups_is_that_of_their_order(sequencing):
    groups = {"ATL": ["AA", "DL"], "BOS": ["AA", "DL", "UA"]}
    pipeline = {"discipline": "group", "groups": groups, "sequencing": sequencing}
    tables = {
        "service": {"name": "demo", "checkpoint": "c"},
        "kafka": {"bootstrap_servers": "k:1"},
        "pipelines": {"airports": pipeline},
    }
    drawn = groups_drawn(groups, parse_config(tables, {}, "demo").pipelines["airports"])
    assert ("the order of the micro-batch" in drawn) == (sequencing == "batch")
    assert ("node 0" in drawn) == (sequencing == "network")


@pytest.mark.parametrize("has_broker", [True, False])
def test_what_is_kept_can_be_looked_at(tmp_path, has_broker):
    """Its broker ends with the demo: the commands start it again, where the file looks for it."""
    demo = Demo(10, 5.0, 1, tmp_path / "of ann", "batch")
    demo.bootstrap = "127.0.0.1:4711"
    if has_broker:
        (demo.folder / "kafka").mkdir()
    *broker, look = demo.how_to_look().splitlines()
    data, config = (f"'{demo.folder}/{name}'" for name in ("kafka", "demo.toml"))
    assert broker == [f"  sequencer broker --port 4711 --data {data} &"] * has_broker
    assert look.startswith(f"  sequencer verify {config} ")


def test_a_demo_that_was_kept_is_left_alone(tmp_path):
    """A second one there took its checkpoint and its counts for its own, and reported losses."""
    (tmp_path / "demo.toml").touch()
    with pytest.raises(ConfigError, match=r"holds an earlier demo\. Nothing was started"):
        Demo(10, 5.0, 1, tmp_path, "batch")
