"""`import sequencer`: what it gives, and that it costs next to nothing."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import sequencer


def test_every_name_is_there_once_and_where_the_front_door_says():
    assert sorted(sequencer.__all__) == sorted(sequencer._HOMES) == list(sequencer.__all__)
    for name in sequencer.__all__:
        thing = getattr(sequencer, name)
        assert thing.__module__.startswith(sequencer._HOMES[name]), name
        assert thing.__doc__, name
    assert set(sequencer.__all__) <= set(dir(sequencer))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = sequencer.Nothing


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(sequencer.__file__).read_text())
    imported = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("sequencer.")
        for alias in node.names
    }
    assert imported == sequencer._HOMES


def test_the_import_alone_loads_nothing_else():
    code = (
        "import sys, sequencer\n"
        "heavy = {'numpy', 'networkx', 'scipy', 'pyarrow', 'pyspark'} & set(sys.modules)\n"
        "rooms = [name for name in sys.modules if name.startswith('sequencer.')]\n"
        "assert not heavy | set(rooms), (heavy, rooms)\n"
        "from sequencer import LinearLabels\n"
        "assert 'networkx' not in sys.modules and 'scipy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
