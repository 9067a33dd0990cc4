"""A shard's row in the state store: where the core's bytes are in its text."""

import pytest

from streaming.arrow.ipc import to_line
from streaming.disciplines.state_row import StateRow, blob_of

CORE = bytes(range(256))


@pytest.mark.parametrize("before", ["", "[[],[]]\n"])
@pytest.mark.parametrize("core", [b"", CORE])
def test_the_core_is_the_last_line(core, before):
    text = before + to_line(core)
    assert text.isascii()
    assert blob_of(text) == core


def test_a_new_shard_has_no_core():
    assert blob_of(StateRow().core) == b""
