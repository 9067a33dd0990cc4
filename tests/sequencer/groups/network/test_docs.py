"""The examples of docs/overlaps.md give what they say."""

from __future__ import annotations

import doctest
from pathlib import Path

DOCUMENT = Path(__file__).parents[4] / "docs" / "overlaps.md"


def test_examples():
    result = doctest.testfile(str(DOCUMENT), module_relative=False)
    assert result.attempted > 30
    assert result.failed == 0
