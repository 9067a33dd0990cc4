"""A shard's core and totals in a row of the state store, as this and older versions write them."""

import pytest

from streaming.disciplines.shards import STATE_FORMAT, core_of, text_of
from streaming.errors import StateFormatError

CORE = bytes(range(256))


@pytest.mark.parametrize("core", [b"", CORE])
@pytest.mark.parametrize("more", [(), ("[[],[]]",)])
def test_both_come_back(core, more):
    text = text_of(core, '{"seen":1}')
    assert text.isascii()
    assert core_of((STATE_FORMAT, 5, *more, b"", text)) == (core, '{"seen":1}')


@pytest.mark.parametrize("form", [STATE_FORMAT - 1, STATE_FORMAT + 1])
def test_other_formats_are_refused(form):
    with pytest.raises(StateFormatError, match=f"reads format {STATE_FORMAT}"):
        core_of((form, 5, b"", "{}"))
