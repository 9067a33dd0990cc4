"""The picture of a sequencing graph, read back from its SVG."""

from __future__ import annotations

import doctest
import itertools
import random
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sequencer.groups.network.graph import check
from sequencer.groups.network.overlaps import ordered_overlaps
from sequencer.groups.network.overview import overview
from sequencer.groups.network.routes import Directory
from streaming.errors import ConfigError
from streaming.graph import svg
from streaming.graph.layout import lay_out
from streaming.graph.svg import draw
from tests.seeds import examples

SVG = "{http://www.w3.org/2000/svg}"
FIGURE = {"G0": "ABC", "G1": "BC", "G2": "ABD", "G3": "BCD"}
RING = {"R0": "pq", "R1": "qr", "R2": "rp"}


def zipf(count, seed=1, subscribers=128):
    """The group of rank r has a share of 1/r of all subscribers."""
    rng = random.Random(seed)
    names = [f"S{at}" for at in range(subscribers)]
    return {f"G{r}": rng.sample(names, max(1, subscribers // r)) for r in range(1, count + 1)}


def marked(root, kind):
    """The elements of a class, by id."""
    found = [each for each in root.iter() if kind in each.get("class", "").split()]
    ids = [each.get("id") for each in found if each.get("id")]
    assert len(ids) == len(set(ids)), f"an id of class {kind} is there twice"
    return {each.get("id"): each for each in found if each.get("id")}


def parse(text):
    return ET.fromstring(text)  # noqa: S314  (a picture of our own)


def group(root, name):
    """The element of a group."""
    (found,) = (e for e in marked(root, "group").values() if told(e).startswith(f"{name}: "))
    return found


def told(element):
    return element.find(f"{SVG}title").text


def dots(atom):
    """The dots of an atom: group's place -> (x, y)."""
    places = [int(each[1:]) for each in atom.get("class").split() if re.fullmatch(r"g\d+", each)]
    found = [(float(c.get("cx")), float(c.get("cy"))) for c in atom.iter(f"{SVG}circle")]
    assert len(found) == len(places) == 2
    return dict(zip(places, found, strict=True))


def stretches(group):
    """The pieces of a group's line, in the order of drawing: (start, end, y)."""
    found = []
    for path in group.iter(f"{SVG}path"):
        if "path" in path.get("class").split():
            start, y, end = map(float, re.fullmatch(r"M(\S+) (\S+)H(\S+)", path.get("d")).groups())
            found.append((start, end, y))
    return found


def judged(groups, nodes, messages=None, name="p"):
    """Draws, and holds the picture against the graph that the service would use; the SVG's root."""
    text = draw(groups, nodes, messages, name)
    assert text.isascii()
    assert draw(groups, nodes, messages, name) == text
    root = parse(text)
    view = overview(groups, nodes, messages)
    names = [*(lane.group for lane in lay_out(view).lanes), *view.ingress_only]
    assert sorted(names) == sorted(groups)
    boxes, atoms, lanes = (marked(root, kind) for kind in ("node", "atom", "group"))
    assert set(lanes) == {f"group-{at}" for at in range(len(names))}
    assert set(boxes) == {f"node-{node}" for node in view.placed.values()}

    xs = {}
    for mark in atoms.values():
        at = dots(mark)
        pair = tuple(sorted(names[place] for place in at))
        assert pair not in xs, f"{pair} is drawn twice"
        xs[pair] = {x for x, _ in at.values()}.pop()
        assert {x for x, _ in at.values()} == {xs[pair]}
        for place, (x, y) in at.items():
            line = stretches(lanes[f"group-{place}"])
            assert any(start < x < end and y == height for start, end, height in line)
        box = boxes[f"node-{view.placed[pair]}"].find(f"{SVG}rect")
        assert box.get("class") == "box"
        left, width = float(box.get("x")), float(box.get("width"))
        assert left < xs[pair] < left + width
    assert set(xs) == {overlap.pair for overlap in ordered_overlaps(groups)}

    # C3 as a reader sees it: whoever takes an edge goes to the right.
    for first, second in view.graph.edges():
        assert xs[first] < xs[second], f"{first} to {second} leads to the left"
    for mark in lanes.values():
        line = stretches(mark)
        assert all(start < end for start, end, _ in line)
        assert all(one[1] == other[0] for one, other in itertools.pairwise(line))
        assert len({y for _, _, y in line}) == 1
    heights = [
        stretches(lanes[f"group-{place}"])[0][2]
        for place, name in enumerate(names)
        if view.graph.paths[name]
    ]
    assert len(set(heights)) == len(heights), "two groups share a lane"
    return root


def test_the_paper_s_figure_with_a_ring_and_a_group_alone():
    root = judged({**FIGURE, **RING, "alone": "X"}, 4)
    atoms = marked(root, "atom")
    assert told(group(root, "G0")).splitlines() == [
        "G0: 3 members",
        "1 message (not counted)",
        "numbered by 3 atoms on node 0",
        "members: A, B, C",
    ]
    assert told(group(root, "R1")).splitlines()[2] == (
        "numbered by 2 atoms on nodes 1, 3, passed on by node 2"
    )
    assert told(group(root, "alone")).splitlines()[2] == (
        "ingress only: shares no order with other groups"
    )
    assert sorted(told(mark).splitlines()[0] for mark in marked(root, "single").values()) == [
        "R0 + R1",
        "R0 + R2",
        "R1 + R2",
    ]
    (first,) = (mark for mark in atoms.values() if told(mark).startswith("G0 + G1\n"))
    assert told(first).splitlines()[1:] == [
        "2 subscribers in common: B, C",
        "on node 0",
        "numbers 2 messages",
    ]


@pytest.mark.parametrize(
    "nodes", [pytest.param(1, marks=pytest.mark.slow), 4, pytest.param(32, marks=pytest.mark.slow)]
)
def test_64_groups(nodes):
    root = judged(zipf(64), nodes)
    assert float(root.get("width")) < 7000
    assert float(root.get("height")) < 1500


memberships = st.dictionaries(
    st.text(max_size=8), st.lists(st.sampled_from("abcdefgh"), max_size=5), max_size=9
)


@settings(max_examples=examples(60), deadline=None)
@given(memberships, st.integers(1, 5))
def test_any_membership(groups, nodes):
    judged(groups, nodes)


@settings(max_examples=examples(60), deadline=None)
@given(memberships, st.integers(1, 5))
def test_the_overview_is_what_the_service_routes(groups, nodes):
    """Each view of the directory has the atoms of the picture, on the shards of its nodes."""
    view = overview(groups, nodes)
    assert check(view.graph, groups) == ()
    directory = Directory(nodes, lambda node: node + 100, 1000)
    directory.begin(groups)
    pairs = {}
    for routed in directory.views.values():
        for group, runs in routed.paths.items():
            found = [(routed.pairs[at], run.shard - 100) for run in runs for at in run.atoms]
            assert found == [(pair, view.placed[pair]) for pair in view.graph.stamping(group)]
            pairs |= dict(found)
    assert pairs == view.placed


def test_no_group_one_group_and_groups_without_members():
    assert "There are no groups yet." in draw({}, 4, None, "p")
    judged({}, 1)
    root = judged({"one": ["a", "b"]}, 1)
    assert "one: 2 members" in told(marked(root, "group")["group-0"])
    root = judged({"empty": [], "other": []}, 1)
    assert "no members" in told(marked(root, "group")["group-1"])


HOSTILE = [
    "<script>alert(1)</script>",
    "]]></style></svg>",
    "a&b;\"'`",
    "\x00\x1b[31m\x7f",
    "\ud800 \uffff",
    "\u202egnp.exe",
    "x" * 5000,
    "\N{CJK UNIFIED IDEOGRAPH-540D}" * 300,
    "\n\n",
    "{color:red}",
    " ",
    "",
]


def test_names_are_text_and_nothing_else():
    members = {name: [*HOSTILE[at:], "common", "too"] for at, name in enumerate(HOSTILE)}
    root = judged(members, 3, None, "".join(HOSTILE))
    assert {each.tag.removeprefix(SVG) for each in root.iter()} <= {
        "svg", "title", "style", "rect", "text", "g", "path", "circle",
    }  # fmt: skip
    plain = draw({f"n{at}": some for at, some in enumerate(members.values())}, 3, None, "p")
    assert root.find(f"{SVG}style").text == parse(plain).find(f"{SVG}style").text
    shown = [told(each).split("\n")[0] for each in marked(root, "group").values()]
    assert len(set(shown)) == len(HOSTILE)
    for name in ("<script>alert(1)</script>", "a&b;\"'`"):
        assert any(each.startswith(f"{name}: ") for each in shown)
    assert any(each.startswith(r"\u202egnp.exe: ") for each in shown)
    for each in root.iter(f"{SVG}text"):
        assert len(each.text or "") < 200
        assert (each.text or "").isprintable()


def test_a_long_name_is_cut_and_whole_under_the_pointer():
    name = "the group of all who have something to do with trains"
    root = judged({name: "ab", "other": "ab"}, 1)
    labels = [each.text for each in root.iter(f"{SVG}text")]
    assert name not in labels
    assert any(each.endswith("…") and name.startswith(each[:-1]) for each in labels if each)
    assert any(
        told(mark).startswith(f"{name}: 2 members") for mark in marked(root, "group").values()
    )


def test_many_members_are_cut_with_their_number():
    root = judged({"G": [f"S{at:04}" for at in range(1000)]}, 1)
    assert told(marked(root, "group")["group-0"]).endswith("S0039 and 960 more")


def test_loads_are_the_messages_of_groups():
    counts = {"G0": 1000, "G1": 200, "gone": 7}
    root = judged(FIGURE, 1, counts)
    (node,) = marked(root, "node").values()
    assert "orders 1,200 messages of 4 groups: G0, G1, G2, G3" in told(node)
    assert "the busiest receiver, B, gets 1,200 messages" in told(node)
    texts = [each.text for each in root.iter(f"{SVG}text")]
    assert "orders 1,200, limit 1,200" in texts
    assert "Every group counts as 1 message." not in texts
    assert "Every group counts as 1 message." in draw(FIGURE, 1, None, "p")
    # Counts change nothing but loads: the service places atoms before it knows them.
    assert overview(FIGURE, 3, counts).placed == overview(FIGURE, 3).placed


def test_a_node_above_the_busiest_receiver_is_marked():
    root = judged(RING, 1)
    (node,) = marked(root, "node").values()
    assert "over" in node.get("class").split()
    root = judged(RING, 3)
    assert not any("over" in each.get("class").split() for each in marked(root, "node").values())


def test_bars_are_in_proportion():
    root = judged(RING, 1)
    (node,) = marked(root, "node").values()
    bars = {each.get("class"): each for each in node.iter(f"{SVG}rect")}
    tick = next(each for each in node.iter(f"{SVG}path"))
    start, whole = float(bars["orders"].get("x")), float(bars["orders"].get("width"))
    limit = float(re.match(r"M(\S+)", tick.get("d")).group(1)) - start
    assert limit / whole == pytest.approx(2 / 3, abs=0.01)
    judged(RING, 1, dict.fromkeys(RING, 0))  # nothing to divide by


def test_nodes_that_only_pass_messages_on_have_dashes():
    groups = zipf(16)
    view = overview(groups, 8)
    root = judged(groups, 8)
    found = 0
    for name in groups:
        own = {view.placed[pair] for pair in view.graph.stamping(name)}
        passed = {view.placed[pair] for pair in view.graph.paths[name]}
        dashed = [each for each in group(root, name) if "transit" in each.get("class", "").split()]
        assert len(dashed) == len(passed - own)
        found += len(dashed)
    assert found, "nothing only passes: the membership shows nothing"


def test_every_highlight_rule_is_there():
    style = parse(draw(zipf(20), 4, None, "p")).find(f"{SVG}style").text
    for at in range(20):
        assert f".sequencing:has(.group.g{at}:hover) .g{at}" in style
    assert style.count("{") == style.count("}")
    assert "script" not in draw(zipf(20), 4, None, "p")


def test_too_much_for_a_picture_is_refused(monkeypatch):
    monkeypatch.setattr(svg, "ATOMS_MAX", 6)
    draw({f"G{at}": "ab" for at in range(4)}, 4, None, "p")
    with pytest.raises(ConfigError, match="5 groups with 10 atoms"):
        draw({f"G{at}": "ab" for at in range(5)}, 4, None, "p")
    monkeypatch.setattr(svg, "GROUPS_MAX", 3)
    draw({f"G{at}": "a" for at in range(3)}, 4, None, "p")
    with pytest.raises(ConfigError, match="4 groups"):
        draw({f"G{at}": "a" for at in range(4)}, 4, None, "p")


def test_wrong_numbers_are_refused():
    with pytest.raises(ValueError, match="nodes_max is 0"):
        draw(FIGURE, 0, None, "p")
    with pytest.raises(ValueError, match="no rate of 0 or more for G0"):
        draw(FIGURE, 1, {"G0": -1}, "p")


PAGE = Path(__file__).parents[3] / "docs" / "groups-graph.md"


def test_the_pictures_of_the_page_are_what_its_examples_draw():
    names = {}
    examples = doctest.DocTestParser().get_examples(PAGE.read_text())
    drawn = []
    for each in examples:
        exec(each.source, names)  # noqa: S102  (the page's own examples)
        if each.source.startswith("picture ="):
            drawn.append(names["picture"])
    files = re.findall(r"!\[.*?\]\((figures/.*?[.]svg)\)", PAGE.read_text())
    assert sorted((PAGE.parent / name).read_text() for name in files) == sorted(drawn)
    assert len(drawn) == 2
