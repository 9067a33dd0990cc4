"""The pictures of pages are what the code draws now, from what a real run wrote."""

import json
from xml.etree import ElementTree as ET

import pytest

from tests.pictures import __main__ as pictures
from tests.pictures import recording, states

DRAWN = pictures.drawn()


@pytest.mark.parametrize("name", DRAWN)
def test_the_file_is_what_is_drawn(name):
    text = DRAWN[name]
    ET.fromstring(text)  # noqa: S314  (our own)
    assert (pictures.FIGURES / name).read_text() == text, "draw it anew: python -m tests.pictures"


def test_the_recorded_run_tells_what_its_sentences_say():
    run = json.loads(recording.FILE.read_text())
    assert {name: [step["said"] for step in steps] for name, steps in run.items()} == {
        name: [said for said, _ in story] for name, story in recording.STORIES.items()
    }
    delivered, held, rejected = [], [], []
    for step in run["channel"]:
        delivered += step["delivered"].get("IBM", [])
        held.append(step["held"])
        rejected += step["rejected"]
    assert (delivered, held, rejected) == (["0", "1", "2", "3", "5"], [0, 2, 0, 0, 1, 0], ["2"])
    labels, lost = {}, []
    for step in run["label"]:
        labels |= step["labels"]
        lost += step["rejected"]
    assert lost == ["d"]
    assert labels == dict(zip("abcefgh", "0012102", strict=True))
    streams = {}
    for step in run["group"]:
        for key, texts in step["delivered"].items():
            streams.setdefault(key, []).extend(texts)
    both = [[text for text in streams[key] if text in "abcde"] for key in "BC"]
    assert both[0] == both[1], "who are in both groups see one order"


def test_every_state_has_a_place_and_is_found():
    found = states.edges()
    assert {state for pair in found for state in pair} == set(states.PLACES)
    tried = {name for inputs in found.values() for name in inputs}
    assert tried == {each.name for each in states.INPUTS}
    assert found["ended", "open"] == {"a higher epoch": {"delivered"}}
    assert found["ended", "unknown"] == {"retire_after passes": {"retired"}}
