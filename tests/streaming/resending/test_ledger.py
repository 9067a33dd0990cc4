"""The notes of what was sent back."""

import pytest

from streaming.errors import KafkaUnavailable
from streaming.resending import ledger


def test_kafka_that_goes_away_between_two_transactions_has_what_was_noted(monkeypatch):
    def away(*_):
        raise KafkaUnavailable("It does not answer.", "Nothing was read.", "Run it again.")

    monkeypatch.setattr("streaming.kafka.topics.ends", away)
    with pytest.raises(KafkaUnavailable) as failed:
        ledger.wait_for(None, "rejects.resent", 7)
    assert "What was sent before is noted" in failed.value.effect
