"""The `>>>` examples in pages and docstrings run as they stand."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import sequencer

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("docs/*.md"), ROOT / "README.md"])
MODULES = [name for _, name, _ in pkgutil.walk_packages(sequencer.__path__, "sequencer.")]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_page(page):
    assert doctest.testfile(str(page), module_relative=False).failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize(
    ("reference", "page"),
    [
        ("In-Order Message Delivery", "labels.md"),
        ("catkit2, pull request 426", "availability.md"),
        ("bus1 wiki", "multicast-protocols.md"),
        ("kdbus", "multicast-protocols.md"),
        ("Decentralized Message Ordering for Publish/Subscribe Systems", "overlaps.md"),
    ],
)
def test_every_reference_has_a_page_with_examples(reference, page):
    text = (ROOT / "docs" / page).read_text()
    assert reference in " ".join(text.split())
    assert len(doctest.DocTestParser().get_examples(text)) > 10
