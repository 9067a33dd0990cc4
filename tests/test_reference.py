"""docs/reference.md is what the code says."""

from tests.reference import PAGE, page


def test_the_reference_is_as_the_code_is():
    assert PAGE.read_text() == page(), "docs/reference.md is not as the code: make reference"
