"""What gives connections their tokens for SASL's OAUTHBEARER."""

from __future__ import annotations

from kafka.net.sasl.oauth import AbstractTokenProvider


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Asked by kafka-python for each connection: `token()`, and what goes with it, `extensions()`.

    A connection takes no other class.
    """
