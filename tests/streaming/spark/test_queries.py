"""What the driver asks of a query's rows."""

import pytest

from streaming.spark import queries

PIECE = queries.ANSWER_CHARACTERS_MAX


class JavaText:
    """As Spark's UTF8String is seen through the gateway."""

    def __init__(self, text):
        self.text = text

    def numChars(self):  # noqa: N802
        return len(self.text)

    def substring(self, begin, end):
        return JavaText(self.text[begin:end])

    def toString(self):  # noqa: N802
        assert len(self.text) <= PIECE
        return self.text


@pytest.mark.parametrize("length", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 3 * PIECE + 1])
def test_a_text_comes_in_pieces(length):
    text = ("Zürich \n" * length)[:length]
    assert queries._text(JavaText(text)) == text
