"""`sequencer simulate` as users meet it."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import pytest

from sequencer.checking import cost
from sequencer.groups.network.ordering import Receiver
from sequencer.simulation import (
    changes,
    counts,
    figure1,
    growth,
    hosts,
    latency,
    load,
    stamps,
    trees,
)
from sequencer.simulation.topology import Shape
from streaming.cli.simulate import FIGURES
from streaming.simulate import figures
from streaming.simulate.tables import renewed, rows

ROOT = Path(__file__).parents[3]
SHAPE = Shape(domains=3, transits=4, stubs=2, stub_routers=8)


@pytest.fixture
def here(main):
    return partial(main, "simulate")


def test_a_table_goes_to_standard_output(here):
    code, out, err = here("--figure", "3", "--runs", 1)
    assert (code, err) == (0, "")
    assert "Figure 3" in out
    assert len([line for line in out.splitlines() if line.startswith("|")]) == 15 + 2


def test_json_for_programs_is_the_same_for_the_same_seed(here):
    code, out, err = here("--figure", "stamps", "--runs", 1, "--seed", 4, "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["seed"] == 4
    assert {"by", "at", "collected", "needed", "most", "vector"} <= told["figures"]["stamps"][
        0
    ].keys()
    assert here("--figure", "stamps", "--runs", 1, "--seed", 4, "--json")[1] == out


def test_a_plot_goes_into_the_folder(here, tmp_path):
    code, _, err = here("--figure", "stamps", "--runs", 1, "-o", tmp_path / "new" / "plots")
    assert code == 0
    (path,) = (tmp_path / "new" / "plots").iterdir()
    assert path.read_bytes().startswith(b"\x89PNG")
    assert str(path) in err


def test_every_figure_can_be_drawn_and_told_and_twice_alike(tmp_path):
    from streaming.simulate.figures import draw
    from streaming.simulate.tables import table

    results = {
        "2": latency.figure(list, 1, runs=1, subscribers=16, counts=(4, 8), shape=SHAPE),
        "3": counts.by_groups(list, 1, runs=2, subscribers=16, counts=(1, 4)),
        "4": counts.by_occupancy(list, 1, runs=2, subscribers=16, groups=4),
        "hosts": hosts.figure(list, 1, runs=1, hosts=(8, 16), counts=(4,), shape=SHAPE),
        "trees": trees.figure(list, 1, runs=1, subscribers=16, counts=(4, 8), steps=500),
        "stamps": stamps.figure(list, 1, runs=1, subscribers=16, counts=(4,), occupancies=(0.5,)),
        "load": load.figure(list, 1, runs=1, subscribers=16, counts=(4, 8), shape=SHAPE),
        "growth": growth.figure(list, 1, sizes=((4, 16), (8, 32)), shape=SHAPE),
        "changes": changes.figure(
            list, 1, runs=1, subscribers=16, counts=(4,), steps=(0, 5), shape=SHAPE
        ),
        "cost": cost.growth(destinations=(1, 2), lengths=(4, 8)),
        "1": figure1.steps(),
    }
    assert set(results) == set(FIGURES)
    for name, some in results.items():
        entries = sum(len(step.paths) for step in some) if name == "1" else len(some)
        assert table(name, some).count("\n|") == entries + 2
        path = draw(name, some, tmp_path)
        first = path.read_bytes()
        assert len(first) > 5000
        assert draw(name, some, tmp_path).read_bytes() == first


def test_places_in_a_page_get_their_tables():
    page = "a\n<!-- figure 2 -->\nold\n<!-- end of figure 2 -->\nb\n"
    assert renewed(page, {"3": "|3|"}) == page
    new = "a\n<!-- figure 2 -->\n|2|\n<!-- end of figure 2 -->\nb\n"
    assert renewed(page, {"2": "|2|"}) == new
    assert renewed(new, {"2": "|2|"}) == new
    with pytest.raises(ValueError, match="no figure 9"):
        renewed("<!-- figure 9 -->", {})
    with pytest.raises(ValueError, match="has no end"):
        renewed("<!-- figure 2 -->", {})


def test_the_pages_have_every_figure_and_the_quick_ones_are_as_they_are_now(here, tmp_path):
    docs = ROOT / "docs"
    pages = [docs / name for name in ("simulation.md", "overlaps.md", "multicast-protocols.md")]
    text = "".join(page.read_text() for page in pages)
    for name in FIGURES:
        start, end = f"<!-- figure {name} -->\n|", f"|\n<!-- end of figure {name} -->"
        assert text.count(start) == text.count(end) == 1
    assert rows("1", figure1.steps()) in text
    assert rows("cost", cost.growth()) in text
    pictures = {path.name for path in (docs / "figures").iterdir()}
    assert {picture for picture, _ in figures._DRAWINGS.values()} <= pictures
    shown = "".join(page.read_text() for page in [*docs.glob("*.md"), ROOT / "README.md"])
    for picture in pictures:
        assert f"figures/{picture})" in shown, picture
    copy = tmp_path / "page.md"
    copy.write_text("<!-- figure 1 -->\nold\n<!-- end of figure 1 -->\n")
    assert here("--figure", "1", "--page", copy)[0] == 0
    assert "old" not in copy.read_text()
    assert rows("1", figure1.steps()) in copy.read_text()


def test_the_page_has_the_loads_of_eight_groups_as_they_are_now():
    """One row of a long figure; all draw from one generator, so another order of draws shows."""
    (row,) = rows("load", load.figure(iter, 1, counts=(8,))).splitlines()[2:]
    page = (ROOT / "docs/simulation.md").read_text()
    lines = page.partition("<!-- figure load -->")[2].splitlines()
    assert row.replace(" ", "") in [line.replace(" ", "") for line in lines]


def test_a_page_that_cannot_be_renewed_is_told_before_the_work(here, tmp_path):
    code, out, err = here("--page", tmp_path / "missing.md")
    assert (code, out) == (2, "")
    assert "cannot be renewed" in err


def test_safety_tells_what_went_wrong_and_that_all_held(here):
    code, out, err = here("--safety", "--runs", 3, "--seed", 11)
    assert (code, err) == (0, "")
    assert "3 runs" in out
    assert "reordered" in out
    assert "machines crashed" in out
    assert "All invariants hold" in out


def test_safety_without_faults_and_as_json(here):
    code, out, _ = here("--safety", "--runs", 1, "--faults", "none", "--json")
    assert code == 0
    told = json.loads(out)
    assert told["faults"]["loss"] == 0
    assert told["runs"][0]["anomaly"] is None
    assert told["runs"][0]["faults"] == {}


def test_a_broken_invariant_has_status_1_the_witness_and_the_seed(here, monkeypatch):
    monkeypatch.setattr(
        Receiver,
        "is_next",
        lambda receiver, message: message.number == receiver.next_number.get(message.group, 0),
    )
    code, out, err = here("--safety", "--runs", 50, "--faults", "late=0.5")
    assert code == 1
    assert "got m" in out
    assert "before m" in out
    assert "sequencer simulate --safety --runs 1 --seed" in err
    assert "--faults late=0.5" in err
    seed = err.split("--seed ")[1].split()[0]
    again = here("--safety", "--runs", 1, "--seed", seed, "--faults", "late=0.5")
    assert again[0] == 1
    assert again[1].split("Broken")[1] == out.split("Broken")[1]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (["--figure", "5"], "no figure 5"),
        (["--runs", 0], "--runs is 0"),
        (["--seed", -1], "--seed is -1"),
        (["--faults", "loss=1"], "--faults belongs to --safety"),
        (["--safety", "--figure", "2"], "draws nothing"),
        (["--safety", "--faults", "loss=2"], "loss is 2"),
        (["--safety", "--faults", "los=0.1"], "no fault los"),
        (["--safety", "--faults", "loss"], "loss has no number"),
        (["--safety", "--faults", "crashes=1.5"], "crashes has no number"),
        (["--safety", "--faults", "loss=nan"], "loss is nan"),
    ],
)
def test_a_wrong_call_has_status_2_and_a_short_error(here, wrong, told):
    code, out, err = here(*wrong)
    assert (code, out) == (2, "")
    assert told in err
    assert len(err.splitlines()) <= 3


def test_a_folder_that_cannot_be_is_told_before_the_work(here, tmp_path):
    (tmp_path / "file").write_text("")
    code, out, err = here("-o", tmp_path / "file")
    assert (code, out) == (2, "")
    assert "Nothing was simulated." in err


def test_matplotlib_is_needed_for_plots_alone(here, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "streaming.simulate.figures", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, err = here("--figure", "stamps", "--runs", 1, "-o", tmp_path)
    assert (code, out) == (2, "")
    assert "spark-sequencer[figures]" in err
    assert here("--figure", "stamps", "--runs", 1)[0] == 0


def test_the_help_of_the_command_has_exit_statuses_and_an_example(here):
    code, out, _ = here("--help")
    assert code == 0
    assert "Exit status: 0" in out
    assert "Example: sequencer simulate" in out
