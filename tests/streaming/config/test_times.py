"""Lengths of time as people write them."""

import pytest
from pydantic import TypeAdapter, ValidationError

from streaming.settings.values import Duration

SPAN = TypeAdapter(Duration)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("5m", 300_000),
        ("1.5 s", 1_500),
        ("0.25s", 250),
        ("2d", 172_800_000),
        ("7 days", 604_800_000),
    ],
)
def test_short_units_and_fractions(text, ms):
    assert SPAN.validate_python(text).ms == ms


@pytest.mark.parametrize("text", ["1.5", "1.0005 s", ".5 s", "1. s", "5 M", "", "-1 s", "1e3 s"])
def test_what_is_no_length_of_time(text):
    with pytest.raises(ValidationError):
        SPAN.validate_python(text)
