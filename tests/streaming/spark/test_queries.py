"""What the driver asks of a query's rows."""

from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException

from streaming.errors import StorageUnavailable
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


def start(monkeypatch, error):
    """Start a query, which Spark does not."""
    monkeypatch.setattr(queries, "ensure_callback_server_started", lambda _gateway: None)
    frame = MagicMock()
    frame.writeStream.queryName().option().outputMode().trigger().start.side_effect = error
    queries.start(frame, "p", "s3a://b/p", print)


def test_a_start_for_which_another_copy_was_first_is_tried_again(monkeypatch):
    """Both named the query of a new checkpoint: Spark says so before it has a query."""
    said = "Multiple streaming queries are concurrently using s3a://b/p/metadata."
    with pytest.raises(StorageUnavailable, match="Another copy"):
        start(monkeypatch, PySparkException(said))


def test_a_jvm_that_ends_in_a_start_is_not_taken_for_a_query_that_stopped(monkeypatch):
    """`Jvm` says that it ended, and how; and nobody asks it again and again."""
    with pytest.raises(Py4JNetworkError):
        start(monkeypatch, Py4JNetworkError("Answer from Java side is empty"))
