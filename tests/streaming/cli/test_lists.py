"""The lists of groups and nodes, whose names may be any text."""

import json

import pytest

from streaming.cli.changes import _show

ROWS = [{"group": "G\nH  fake\x9b2J\u202e", "members": ["a\x1b[2J", "b\u2028"]}]


@pytest.mark.parametrize("as_json", [False, True])
def test_a_name_stays_on_its_line(capsys, as_json):
    _show(ROWS, as_json=as_json)
    shown = capsys.readouterr().out.removesuffix("\n")
    assert shown.isprintable()
    if as_json:
        assert json.loads(shown) == ROWS
    else:
        assert shown == r"G\nH  fake\u009b2J\u202e  a\x1b[2J, b\u2028"
