"""docs/events.md: every reason of the code, and no event that the code has not."""

import re
from pathlib import Path

from streaming.disciplines import DISCIPLINES

ROOT = Path(__file__).parents[1]
EVENTS, REJECTS = (ROOT / "docs" / "events.md").read_text().split("## Rejects")


def names_in(text, cell):
    """The words in code style in the cells of tables that a pattern finds."""
    return {
        name
        for row in re.findall(cell, text, re.MULTILINE)
        for name in re.findall(r"`([a-z-]+)`", row)
    }


def test_every_reason_is_explained():
    known = {reason for each in DISCIPLINES.values() for reason in each.reasons}
    assert names_in(REJECTS, r"^\| (`.*?) \|") == known


def test_every_event_is_explained():
    known = {event for each in DISCIPLINES.values() for event in each.events}
    assert names_in(EVENTS, r"^\| (`[^:|]*)") == known | {"command-done", "command-refused"}


def test_no_event_is_made_up():
    sources = [*ROOT.glob("sequencer/**/*.py"), *ROOT.glob("streaming/**/*.py")]
    words = set(
        re.findall(r'"([a-z]+(?:-[a-z]+)*)"', "".join(path.read_text() for path in sources))
    )
    assert names_in(EVENTS, r"^\| (`[^:|]*)") <= words
