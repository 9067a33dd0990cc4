"""`sequencer graph` as users meet it."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from sequencer.groups.network.graph import check
from sequencer.groups.network.overlaps import ordered_overlaps
from sequencer.groups.network.overview import overview
from streaming.graph.overlaps import draw_overlaps
from streaming.graph.svg import draw

GROUPS = {"G0": ["A", "B", "C"], "G1": ["B", "C"], "G2": ["A", "B", "D"], "lone": ["E"]}
MARKET = """
[pipelines.market]
discipline = "group"
sequencing = "network"
nodes = {nodes}
sender_order = "{order}"
groups = {{ G0 = ["A", "B", "C"], G1 = ["B", "C"], G2 = ["A", "B", "D"], lone = ["E"] }}
"""
RING = """
[pipelines.ring]
discipline = "group"
sequencing = "network"
nodes = 1
groups = { R0 = ["p", "q"], R1 = ["q", "r"], R2 = ["r", "p"] }
"""
TRADES = """
[pipelines.trades]
discipline = "channel"
"""


@pytest.fixture
def here(main):
    return partial(main, "graph")


@pytest.fixture
def config(tmp_path):
    """Gives a function that writes a configuration; its path."""

    def write(*pipelines):
        path = tmp_path / "c.toml"
        path.write_text("\n".join(pipelines), encoding="utf-8")
        return path

    return write


def parse(text):
    return ET.fromstring(text)  # noqa: S314  (a picture of our own)


def market(nodes=4, order="group"):
    return MARKET.format(nodes=nodes, order=order)


def test_the_picture_goes_to_standard_output(here, config):
    code, out, err = here(config(market(), TRADES))
    assert code == 0
    assert out == draw(GROUPS, 4, None, "market: groups, atoms and sequencing nodes")
    assert err == "market: 4 groups, 5 subscribers, 2 atoms on 1 of 4 nodes.\n"


def test_by_the_batch_there_are_overlaps_and_no_nodes(here, config):
    path = config(market().replace('sequencing = "network"\n', ""))
    code, out, err = here(path)
    assert code == 0
    assert err == "market: 4 groups, 5 subscribers, 2 overlaps.\n"
    picture = parse(out)
    ids = [each.get("id", "") for each in picture.iter()]
    assert sorted(filter(None, ids)) == [
        "group-0", "group-1", "group-2", "group-3", "overlap-0", "overlap-1",
    ]  # fmt: skip
    found = json.loads(here(path, "--json")[1])
    assert found["overlaps"] == [
        {"groups": ["G0", "G1"], "common": ["B", "C"]},
        {"groups": ["G0", "G2"], "common": ["A", "B"]},
    ]
    assert {name: each["overlaps"] for name, each in found["groups"].items()} == {
        "G0": [0, 1], "G1": [0], "G2": [1], "lone": [],
    }  # fmt: skip
    shown = draw_overlaps(GROUPS, None, "x", {("G0", "G2"): 1234})
    titles = [each.text for each in parse(shown).iter() if each.tag.endswith("title")]
    assert [each for each in titles if "next number" in each] == [
        "G0 + G2\n2 subscribers in common: A, B\nnext number 1,234"
    ]


def test_or_into_a_file(here, config, tmp_path):
    path = config(market())
    code, out, _ = here(path, "-o", tmp_path / "a b.svg")
    assert (code, out) == (0, "")
    assert (tmp_path / "a b.svg").read_text() == here(path)[1]


def test_one_of_several_pipelines(here, config):
    path = config(market(), RING)
    code, out, err = here(path, "--pipeline", "ring")
    assert code == 0
    assert parse(out)[0].text.startswith("ring: ")
    assert "Above the limit, what the busiest receiver gets: node 0." in err
    assert "pipelines.ring.nodes" in err


def test_json_for_programs(here, config):
    code, out, _ = here(config(market(), RING), "--pipeline", "market", "--json")
    assert code == 0
    found = json.loads(out)
    view = overview(GROUPS, 4)
    assert check(view.graph, GROUPS) == ()
    assert found["pipeline"] == "market"
    assert found["ingress_only"] == ["lone"]
    assert found["busiest"] == {"subscriber": "B", "messages": 3}
    assert {name: each["members"] for name, each in found["groups"].items()} == GROUPS
    assert {tuple(each["groups"]): set(each["common"]) for each in found["atoms"]} == {
        overlap.pair: overlap.members for overlap in ordered_overlaps(GROUPS)
    }
    for name, each in found["groups"].items():
        assert each["atoms"] == sorted(each["atoms"])
        assert all(name in found["atoms"][at]["groups"] for at in each["atoms"])
    assert found["nodes"] == [{"node": 0, "orders": 3, "passes": 3, "over": False}]
    assert found["edges"] == []


def test_the_edges_of_json_have_one_direction(here, config):
    ring = RING.replace("nodes = 1", "nodes = 3")
    found = json.loads(here(config(ring), "--json")[1])
    edges = {(each["from"], each["to"]): each["groups"] for each in found["edges"]}
    paths = {name: each["nodes"] for name, each in found["groups"].items()}
    assert len(edges) == 2
    assert not edges.keys() & {(to, start) for start, to in edges}
    for (first, second), names in edges.items():
        for name in names:
            assert paths[name].index(second) == paths[name].index(first) + 1


def test_one_node_numbers_all_where_a_sender_has_one_order(here, config):
    ring = RING.replace("nodes = 1", 'nodes = 3\nsender_order = "across-groups"')
    code, out, err = here(config(ring), "--json")
    assert code == 0
    assert [each["node"] for each in json.loads(out)["nodes"]] == [0]
    assert "sender_order = across-groups" in err


def test_no_groups_yet(here, config):
    code, out, _ = here(config('[pipelines.p]\ndiscipline = "group"\n'))
    assert code == 0
    assert "There are no groups yet." in out
    found = json.loads(here(config('[pipelines.p]\ndiscipline = "group"\n'), "--json")[1])
    assert (found["groups"], found["overlaps"]) == ({}, [])


@pytest.mark.parametrize(
    ("pipelines", "arguments", "told"),
    [
        ([TRADES], [], "no pipeline of discipline group"),
        ([market(), RING], [], "--pipeline market. Known ones: market, ring."),
        ([market(), TRADES], ["--pipeline", "trades"], "is of discipline channel"),
        ([market()], ["--pipeline", "markt"], "no pipeline 'markt'"),
        ([market()], ["-o", "/nowhere/at/all.svg"], "cannot be written: No such file"),
        ([market(nodes=0)], [], "pipelines.market.nodes"),
        ([market()], ["--pipelin"], "No such option"),
    ],
)
def test_a_wrong_call_has_status_2_and_says_what_to_do(here, config, pipelines, arguments, told):
    code, out, err = here(config(*pipelines), *arguments)
    assert (code, out) == (2, "")
    assert told in err
    assert "Traceback" not in err


def test_too_many_atoms_for_a_picture_can_be_had_as_json(here, config, monkeypatch):
    monkeypatch.setattr("streaming.graph.svg.ATOMS_MAX", 1)
    code, out, err = here(config(market()))
    assert (code, out) == (2, "")
    assert "--json" in err
    assert here(config(market()), "--json")[0] == 0


def test_a_terminal_without_unicode(config):
    path = config('[pipelines.p]\ndiscipline = "group"\ngroups = { "Größe\\u202e" = ["ä"] }\n')
    done = subprocess.run(
        [sys.executable, "-m", "streaming.cli", "graph", str(path)],
        capture_output=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        cwd=Path(__file__).parents[3],
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Größe\\u202e" in [each.text for each in parse(done.stdout).iter()]


def test_the_help_of_the_command_has_exit_statuses_and_an_example(here):
    code, out, _ = here("--help")
    assert code == 0
    assert "Exit status: 0" in out
    assert "Example: sequencer graph" in out
