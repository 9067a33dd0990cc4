"""What README and examples show must work."""

import importlib
import re
from pathlib import Path

from streaming.clients import GroupDelivery
from streaming.config import load_config, parse_config

ROOT = Path(__file__).parents[2]


def test_example_configurations_are_sound():
    found = sorted((ROOT / "examples").glob("*.toml"))
    assert found
    for path in found:
        load_config(path, {})


def test_the_readme_shows_a_sound_configuration():
    import tomllib

    blocks = re.findall(r"```toml\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        parse_config(tomllib.loads(block), {}, "README.md")


def test_a_reader_that_stood_still_books_nothing_twice(monkeypatch):
    """What another one has booked meanwhile."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    ledger = importlib.import_module("market").Ledger(":memory:")

    def delivery(sequence):
        return GroupDelivery(
            "t", 0, sequence, 0, b"ann", b"%d" % sequence, (), sequence, 7, b"bob", "G", 0, 0, ()
        )

    for sequence in (0, 1, 0, 1, 2):
        ledger.book(delivery(sequence))
    booked = ledger.database.execute("SELECT what FROM booked").fetchall()
    assert booked == [("G: 0",), ("G: 1",), ("G: 2",)]
    assert ledger.place(delivery(0)) == (7, 2)


def test_pages_that_the_readme_names_exist():
    for page in re.findall(r"\]\((docs/[a-z-]+\.md)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / page).exists(), page
