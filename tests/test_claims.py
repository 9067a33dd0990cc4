"""docs/claims.md names code and tests that are there, and has no row without a test."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "claims.md").read_text()
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!`)\|", line)[1:-1]]
    for line in PAGE.splitlines()
    if line.startswith("| ") and line.count("|") == 5 and "`" in line
]


def test_the_page_has_a_table_for_each_reference():
    assert PAGE.count("| claim | code | live or library | test |") == 5
    assert len(ROWS) > 50


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_what_a_row_names_is_there(row):
    _, code, where, test = row
    assert where
    files = re.findall(r"`([a-z_/0-9]+\.py)`", code)
    assert files
    for file in files:
        assert (ROOT / file).is_file(), file
    path, name = re.fullmatch(r"`(tests/\S+\.py)::(test_\w+)`", test).groups()
    assert f"def {name}(" in (ROOT / path).read_text()
